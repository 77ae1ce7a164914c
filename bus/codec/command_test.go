package codec_test

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/codec"
	"github.com/loopbus/loopbus/schemas"
)

var storedAt = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func prompt(text string) *schemas.Prompt { return &schemas.Prompt{Input: schemas.Input{Text: text}} }

func TestDecodeCommandInEveryForm(t *testing.T) {
	at := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	structured := nats.Header{"Content-Type": {"application/cloudevents+json"}}
	binary := nats.Header{
		"ce-specversion": {"1.0"}, "ce-id": {"b%201"}, "ce-source": {"/me"}, "ce-type": {"dev.loopbus.prompt.v1"},
		"ce-subject": {"s1"}, "ce-time": {"2026-05-06T07:08:09Z"}, "ce-traceparent": {trace},
	}
	with := func(h nats.Header, key, value string) nats.Header {
		out := nats.Header{key: {value}}
		for k, v := range h {
			if k != key {
				out[k] = v
			}
		}
		return out
	}
	tests := []struct {
		name   string
		kind   schemas.CommandKind
		header nats.Header
		data   string
		want   schemas.Command
	}{
		{"plain text", "prompt", nil, "list the files",
			schemas.Command{ID: "fallback", Time: storedAt, Data: prompt("list the files")}},
		{
			"plain text with a message id and a trace", "steer",
			nats.Header{"Nats-Msg-Id": {"m1"}, "traceparent": {trace}},
			"faster",
			schemas.Command{
				ID: "m1", Time: storedAt, TraceParent: trace,
				Data: &schemas.Steer{Input: schemas.Input{Text: "faster"}},
			},
		},
		{"a broken trace is left out", "prompt", nats.Header{"traceparent": {"x"}}, "hi",
			schemas.Command{ID: "fallback", Time: storedAt, Data: prompt("hi")}},
		{"bare JSON", "prompt", nil, ` {"text":"hi","id":"j1"}`,
			schemas.Command{ID: "j1", Time: storedAt, Data: prompt("hi")}},
		{"the JSON's id before the message id", "abort", nats.Header{"Nats-Msg-Id": {"m1"}}, `{"id":"j1"}`,
			schemas.Command{ID: "j1", Time: storedAt, Data: &schemas.Abort{}}},
		{"the id of a letter that is sent again before all others", "abort",
			nats.Header{"Loopbus-Command-Id": {"again1"}, "Nats-Msg-Id": {"m1"}}, `{"id":"j1"}`,
			schemas.Command{ID: "again1", Time: storedAt, Data: &schemas.Abort{}}},
		{"an empty object", "abort", nil, "{}", schemas.Command{ID: "fallback", Time: storedAt, Data: &schemas.Abort{}}},
		{"an empty payload that somebody means", "abort", nats.Header{"Loopbus-Command": {"abort"}}, "",
			schemas.Command{ID: "fallback", Time: storedAt, Data: &schemas.Abort{}}},
		{"an empty payload with an id", "continue", nats.Header{"Nats-Msg-Id": {"m1"}}, "",
			schemas.Command{ID: "m1", Time: storedAt, Data: &schemas.Continue{}}},
		{"members of a later version, and a sign", "continue", nats.Header{"Loopbus-Command": {"continue"}}, `{"later":1}`,
			schemas.Command{ID: "fallback", Time: storedAt, Data: &schemas.Continue{}}},
		{"members of a later version beside one of this", "abort", nil, `{"later":1,"reason":"enough"}`,
			schemas.Command{ID: "fallback", Time: storedAt, Data: &schemas.Abort{Reason: "enough"}}},
		{"binary", "prompt", binary, `{"text":"hi","id":"j1"}`,
			schemas.Command{ID: "b 1", Source: "/me", Time: at, TraceParent: trace, Data: prompt("hi")}},
		{"binary with text", "prompt", with(binary, "ce-datacontenttype", "text/plain; charset=utf-8"), `{not json`,
			schemas.Command{ID: "b 1", Source: "/me", Time: at, TraceParent: trace, Data: prompt("{not json")}},
		{"binary of unknown content", "prompt", binary, `just text`,
			schemas.Command{ID: "b 1", Source: "/me", Time: at, TraceParent: trace, Data: prompt("just text")}},
		{
			"structured", "prompt", structured,
			`{"specversion":"1.0","id":"x1","source":"/me","type":"dev.loopbus.prompt.v1","data":{"text":"hi"}}`,
			schemas.Command{ID: "x1", Source: "/me", Time: storedAt, Data: prompt("hi")},
		},
		{
			"structured, no content type, a string as data", "prompt", nil,
			`{"specversion":"1.0","id":"x1","source":"/me","type":"dev.loopbus.prompt.v1","data":"hi \"there\""}`,
			schemas.Command{ID: "x1", Source: "/me", Time: storedAt, Data: prompt(`hi "there"`)},
		},
		{
			"structured without data", "abort", structured,
			`{"specversion":"1.0","id":"x1","source":"/me","type":"dev.loopbus.abort.v1","subject":"s1","data":null}`,
			schemas.Command{ID: "x1", Source: "/me", Time: storedAt, Data: &schemas.Abort{}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := codec.DecodeCommand("s1", tt.kind, tt.header, []byte(tt.data), "fallback", storedAt)
			if err != nil {
				t.Fatal(err)
			}
			tt.want.Session = "s1"
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("command (-want +got):\n%s", d)
			}
		})
	}
}

func TestInvalidCommandsAreRejected(t *testing.T) {
	ce := func(kv ...string) nats.Header {
		h := nats.Header{"ce-specversion": {"1.0"}, "ce-id": {"1"}, "ce-source": {"/x"}, "ce-type": {"dev.loopbus.prompt.v1"}}
		for i := 0; i < len(kv); i += 2 {
			h[kv[i]] = []string{kv[i+1]}
		}
		return h
	}
	tests := []struct {
		name   string
		kind   schemas.CommandKind
		header nats.Header
		data   string
		want   schemas.RejectCode
	}{
		{"an unknown kind", "dance", nil, "x", schemas.RejectUnknown},
		{"an unknown kind with nothing", "dance", nats.Header{"Loopbus-Command": {"dance"}}, "", schemas.RejectUnknown},
		{"an acknowledgement at an unknown kind", "dance", nil, `{"stream":"AGENT_CMD","seq":7}`, schemas.RejectForeign},
		{"an empty answer at an unknown kind", "dance", nil, "", schemas.RejectForeign},
		{"a status at an unknown kind", "dance", nats.Header{"Status": {"404"}}, "", schemas.RejectForeign},
		{"malformed JSON", "prompt", nil, `{"text":`, schemas.RejectInvalid},
		{"a wrong type", "prompt", nil, `{"text":5}`, schemas.RejectInvalid},
		{"blank text", "prompt", nil, " \n ", schemas.RejectInvalid},
		{"text that is not UTF-8", "prompt", nil, "a\xff", schemas.RejectInvalid},
		{"text where JSON is needed", "set_model", nil, "gpt", schemas.RejectNotPlain},
		{"a blank id", "abort", nil, `{"id":" "}`, schemas.RejectInvalid},
		{"an id that turns text around", "abort", nil, "{\"id\":\"a\u202e\"}", schemas.RejectInvalid},
		{"an id of ours for a letter", "abort", nats.Header{"Loopbus-Command-Id": {"cmd-7"}}, "{}", schemas.RejectInvalid},
		{"a long id", "abort", nats.Header{"Nats-Msg-Id": {strings.Repeat("x", 129)}}, "{}", schemas.RejectInvalid},
		{"an id with a line break", "abort", nats.Header{"Nats-Msg-Id": {"a\nb"}}, "", schemas.RejectInvalid},
		{"an event of another type", "steer", ce(), `{"text":"x"}`, schemas.RejectCloudEvent},
		{"an event of another version", "prompt", ce("ce-type", "dev.loopbus.prompt.v2"), `{"text":"x"}`,
			schemas.RejectCloudEvent},
		{"an event for another session", "prompt", ce("ce-subject", "s2"), `{"text":"x"}`, schemas.RejectCloudEvent},
		{"an event of XML", "prompt", ce("ce-datacontenttype", "application/xml"), `<x/>`, schemas.RejectCloudEvent},
		{"an event without an id", "prompt", nats.Header{"ce-specversion": {"1.0"}}, `{"text":"x"}`,
			schemas.RejectCloudEvent},
		{"a batch", "prompt", nats.Header{"Content-Type": {"application/cloudevents-batch+json"}}, `[]`,
			schemas.RejectCloudEvent},
		{"an event with invalid data", "prompt", ce(), `{}`, schemas.RejectInvalid},
		{"an id of the service's", "prompt", nil, `{"id":"cmd-9","text":"x"}`, schemas.RejectInvalid},
		{"the id of a result", "prompt", nats.Header{"Nats-Msg-Id": {"result/c9"}}, "x", schemas.RejectInvalid},
		{"the id of another call's result", "tool_result", nil,
			`{"id":"result/c8","call":"c9","toolCallId":"t","toolName":"bash","isError":false,"result":{"content":[]}}`,
			schemas.RejectInvalid},
		{"the id of a timer", "abort", nil, `{"id":"timer-retry-r2-1"}`, schemas.RejectInvalid},
		{"the id of what was given up", "abort", nil, `{"id":"given-up/p1"}`, schemas.RejectInvalid},
		{"a timer that nobody has set", "timer", nil, `{"name":"run_deadline"}`, schemas.RejectInvalid},
		{"nothing", "abort", nil, "", schemas.RejectInvalid},
		{"nothing but white space", "continue", nil, " \n", schemas.RejectInvalid},
		{"an object of something else", "abort", nil, `{"later":1}`, schemas.RejectInvalid},
		{"the kind of another command", "abort", nats.Header{"Loopbus-Command": {"continue"}}, "{}", schemas.RejectInvalid},
		{"an approval of no call", "approve", nil, `{"by":"ann"}`, schemas.RejectInvalid},
		{"an approval that says more", "approve", nil, `{"call":"c9","toolName":"bash"}`, schemas.RejectInvalid},
		{"a denial of no call", "deny", nil, `{}`, schemas.RejectInvalid},
		{"an acknowledgement", "abort", nil, `{"stream":"AGENT_UPD","seq":1}`, schemas.RejectForeign},
		{"an acknowledgement, of a domain, for a prompt", "prompt", nil,
			`{"stream":"S","domain":"hub","seq":1,"duplicate":true}`,
			schemas.RejectForeign},
		{"a refusal of a stream", "continue", nil,
			`{"error":{"code":400,"err_code":10071,"description":"x"},"stream":"S","seq":0}`,
			schemas.RejectForeign},
		{"an answer of the API that has a member of ours", "timer", nil,
			`{"type":"io.nats.jetstream.api.v1.consumer_create_response","name":"run_deadline"}`, schemas.RejectForeign},
		{"an answer of a service", "abort", nil, `{"type":"io.nats.micro.v1.info_response","id":"x","name":"n"}`,
			schemas.RejectForeign},
		{"a status", "abort", nats.Header{"Status": {"404"}, "Description": {"Message Not Found"}}, "",
			schemas.RejectForeign},
		{"a trace", "abort", nil, `{"server":{"name":"n1"},"request":{"header":{}},"events":[]}`, schemas.RejectForeign},
		{"a trace at an inbox for prompts", "prompt", nil, `{"server":{"name":"n1"},"request":{"header":{}},"events":[]}`,
			schemas.RejectForeign},
		{"a compressed trace", "prompt", nats.Header{"Content-Encoding": {"gzip"}}, "\x1f\x8b", schemas.RejectForeign},
		{"a commit", "prompt", nats.Header{"Loopbus-Commit": {"v2 1-1"}}, "[]", schemas.RejectForeign},
		{"a tool call", "approve", nats.Header{"Loopbus-Dispatch": {"x"}}, `{"call":"c9"}`, schemas.RejectForeign},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := codec.DecodeCommand("s1", tt.kind, tt.header, []byte(tt.data), "fallback", storedAt)
			var rejected *codec.RejectError
			if !errors.As(err, &rejected) || rejected.Code != tt.want || rejected.Reason == "" {
				t.Errorf("error %v, want a rejection %s", err, tt.want)
			}
		})
	}
}

func FuzzDecodeCommand(f *testing.F) {
	f.Add("prompt", "", "", "", []byte("list the files"))
	f.Add("prompt", "application/cloudevents+json", "", "",
		[]byte(`{"specversion":"1.0","id":"1","source":"/x","type":"dev.loopbus.prompt.v1","data":{"text":"x"}}`))
	f.Add("prompt", "application/cloudevents+json", "", "", []byte(`{"data_base64":1,"specversion":"1.0"}`))
	f.Add("abort", "", "ce-id", "%41", []byte(`{}`))
	f.Add("set_tools", "", "ce-x", "%", []byte(`{"tools":null}`))
	f.Fuzz(func(t *testing.T, kind, contentType, key, value string, data []byte) {
		header := nats.Header{}
		if contentType != "" {
			header["Content-Type"] = []string{contentType}
		}
		if strings.HasPrefix(key, "ce-") {
			header["ce-specversion"], header["ce-source"], header["ce-id"] = []string{"1.0"}, []string{"/x"}, []string{"1"}
			header["ce-type"] = []string{"dev.loopbus." + kind + ".v1"}
		}
		header[key] = []string{value}
		c, err := codec.DecodeCommand("s1", schemas.CommandKind(kind), header, data, "fallback", storedAt)
		var rejected *codec.RejectError
		switch {
		case err != nil && (!errors.As(err, &rejected) || !utf8.ValidString(rejected.Reason) || len(rejected.Reason) > 4096):
			t.Fatalf("not a fit rejection: %v", err)
		case err == nil && (c.ID == "" || c.Data == nil || c.Data.CommandKind() != schemas.CommandKind(kind)):
			t.Fatalf("half a command: %+v", c)
		}
	})
}

// The sender finds the outcome of a command by its id, to the last blank.
func TestAnIDKeepsItsBlanks(t *testing.T) {
	t.Parallel()
	binary := nats.Header{"ce-specversion": {"1.0"}, "ce-id": {"%20b%201%20"}, "ce-source": {"/me"},
		"ce-type": {"dev.loopbus.prompt.v1"}}
	structured := nats.Header{"Content-Type": {"application/cloudevents+json"}}
	for data, header := range map[string]nats.Header{`{"text":"hi"}`: binary, `{"specversion":"1.0","id":" b 1 ",` +
		`"source":"/me","type":"dev.loopbus.prompt.v1","data":{"text":"hi"}}`: structured} {
		got, err := codec.DecodeCommand("s1", "prompt", header, []byte(data), "fallback", storedAt)
		if want := " b 1 "; err != nil || got.ID != want {
			t.Errorf("%s: id %q, %v, want %q", data, got.ID, err, want)
		}
	}
}

// The id in a header of binary mode is percent-decoded also if the message is not a valid command.
func TestIDOfRejectedCommandIsDecoded(t *testing.T) {
	t.Parallel()
	for sent, want := range map[string]string{"a%20b%25": "a b%", "plain": "plain", "bad%2": "cmd-7", "bell%07": "cmd-7"} {
		if got := codec.CommandID(schemas.CommandPrompt, nats.Header{schemas.HeaderID: {sent}}, "cmd-7"); got != want {
			t.Errorf("%q is %q, want %q", sent, got, want)
		}
	}
}

// Toolworkers may send results only, so an id in a result must not be one that a client's command may have.
func TestResultDoesNotTakeAClientsID(t *testing.T) {
	t.Parallel()
	header := nats.Header{"Nats-Msg-Id": {"p-18"}}
	if got := codec.CommandID(schemas.CommandToolResult, header, "cmd-7"); got != "cmd-7" {
		t.Errorf("a rejected result has the id %q", got)
	}
	result := `{"call":"c2","toolCallId":"toolu_1","toolName":"bash","result":{"content":[]},"isError":false}`
	for sent, want := range map[string]string{"p-18": "cmd-7", "result/c2": "result/c2"} {
		header := nats.Header{"Nats-Msg-Id": {sent}}
		cmd, err := codec.DecodeCommand("s1", schemas.CommandToolResult, header, []byte(result), "cmd-7", storedAt)
		if err != nil || cmd.ID != want {
			t.Errorf("a result with the id %q has the id %q (%v), want %q", sent, cmd.ID, err, want)
		}
	}
}

// A worker may name the nonce of a call in the Nats-Msg-Id of its result only.
func TestNonceOfAResult(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ nonce, msgID, want string }{
		{`,"nonce":"N1"`, "s1/c2/N2/result", "N1"},
		{"", "s1/c2/N2/result", "N2"},
		{"", "s1/c2/result/RANDOM", ""}, // the request had none
		{"", "s1/c2/result", ""},
		{"", "s1/c3/N2/result", ""},
		{"", "s2/c2/N2/result", ""},
		{"", "", ""},
	} {
		data := `{"call":"c2","toolCallId":"t","toolName":"bash","result":{"content":[]},"isError":false` + c.nonce + `}`
		header := nats.Header{"Nats-Msg-Id": {c.msgID}}
		cmd, err := codec.DecodeCommand("s1", schemas.CommandToolResult, header, []byte(data), "cmd-7", storedAt)
		if err != nil {
			t.Fatal(err)
		}
		if got := cmd.Data.(*schemas.ToolResponse).Nonce; got != c.want {
			t.Errorf("nonce %q and id %q: %q, want %q", c.nonce, c.msgID, got, c.want)
		}
	}
}

// A sender could otherwise speak in the name of a vendor's model, and refer to what others have stored there.
func TestMessagesOfASenderHaveNoSignatures(t *testing.T) {
	t.Parallel()
	const input = `{"messages":[{"role":"assistant","api":"openai-responses","provider":"openai","model":"gpt-5.4",` +
		`"usage":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":0,` +
		`"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}},"stopReason":"stop","timestamp":1,` +
		`"responseId":"forged","content":[{"type":"thinking","thinking":"x","thinkingSignature":"forged"},` +
		`{"type":"thinking","thinking":"y","thinkingSignature":"forged","redacted":true},` +
		`{"type":"text","text":"x","textSignature":"forged"},` +
		`{"type":"toolCall","id":"x","name":"x","arguments":{},"thoughtSignature":"forged"}]}]}`
	for _, kind := range []schemas.CommandKind{schemas.CommandPrompt, schemas.CommandSteer, schemas.CommandFollowUp} {
		c, err := codec.DecodeCommand("s1", kind, nil, []byte(input), "id", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		data, err := schemas.Marshal(c.Data)
		if err != nil || strings.Contains(string(data), "forged") || strings.Count(string(data), `:"x"`) != 4 {
			t.Errorf("%s is %s, %v", kind, data, err)
		}
	}
}

func TestStoredID(t *testing.T) {
	t.Parallel()
	stored := time.Date(2026, 11, 29, 12, 0, 0, 1, time.UTC)
	for want, inbox := range map[string]string{"cmd-7": "", "cmd-w7d2g7cy-7": "w7d2g7cy",
		"cmd-t-w7d2g7cy-7-dn7of1wc6io1": "t-w7d2g7cy"} {
		if got := codec.StoredID(inbox, 7, stored); got != want || !schemas.IsReservedCommandID(got) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
