package providers_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/schemas"
)

// listsOfNothing holds events with a list, § in them, where each API expects one. The elements are empty, but use a
// hundred times their bytes when decoded.
var listsOfNothing = map[string][]string{
	"openai-completions": {`{"choices":[§]}`, `{"choices":[{"delta":{"tool_calls":[§]}}]}`,
		`{"choices":[{"delta":{"content":[§]}}]}`, `{"choices":[{"delta":{"reasoning_details":[§]}}]}`,
		`{"error":{"message":[§]}}`, `{"unknown":[§]}`},
	"mistral-conversations": {`{"choices":[§]}`, `{"choices":[{"delta":{"tool_calls":[§]}}]}`,
		`{"choices":[{"delta":{"content":[{"type":"thinking","thinking":[§]}]}}]}`},
	"google-generative-ai": {`{"candidates":[§]}`, `{"candidates":[{"content":{"parts":[§]}}]}`,
		`{"candidates":[{"content":{"parts":[{"functionCall":{"name":"ls","args":{"a":[§]}}}]}}]}`},
	"openai-responses": {`{"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[§]}}`,
		`{"type":"response.output_item.added","output_index":1,"item":{"type":"reasoning","summary":[§]}}`},
	"anthropic-messages": {`{"type":"message_start","x":[§]}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","input":{"a":[§]}}}`},
	"bedrock-converse-stream": {`{"role":"assistant","x":[§]}`, `{"contentBlockIndex":0,"delta":{"text":[§]}}`},
}

// bodyOfEvent returns a reply that consists of one event.
func bodyOfEvent(api, event string) []byte {
	if api == "bedrock-converse-stream" {
		return frameBody(wireFrame{"messageStart", event})
	}
	return []byte("event: message_start\ndata: " + event + "\n\n")
}

// listOf returns the elements of a list, about this many bytes in all.
func listOf(item string, size int) string {
	return strings.TrimSuffix(strings.Repeat(item+",", size/(len(item)+1)), ",")
}

// tooLarge reads a reply, which must end with the code too_large.
func tooLarge(t *testing.T, api string, serve http.HandlerFunc) {
	t.Helper()
	req := serveFault(t, api, serve)
	req.Limits = providers.Limits{}
	last := finalEvent(t, t.Context(), api, req)
	if last.FailureCode != schemas.FailureTooLarge || last.Message.StopReason != schemas.StopError {
		t.Errorf("%s %s %.200q, want too_large", last.Reason, last.FailureCode, last.Message.ErrorMessage)
	}
}

// TestEventsOfManyValues has events with few bytes and many values, in every place where an API expects a list.
func TestEventsOfManyValues(t *testing.T) {
	t.Parallel()
	for api, events := range listsOfNothing {
		for i, event := range events {
			t.Run(fmt.Sprintf("%s/%d", api, i), func(t *testing.T) {
				t.Parallel()
				for _, item := range []string{"{}", "0"} {
					body := bodyOfEvent(api, strings.Replace(event, "§", listOf(item, 1<<20), 1))
					tooLarge(t, api, func(w http.ResponseWriter, _ *http.Request) {
						beginHead(api, w)
						_, _ = w.Write(body)
					})
				}
			})
		}
	}
	for name, body := range map[string]string{
		"JSON and no stream":   "{\"choices\":[\n" + listOf("{}", 1<<20) + "]}\n\n",
		"of several lines":     "data: {\"choices\":[{},\ndata: " + listOf("{}", 1<<20) + "]}\n\n",
		"behind half a string": "{\"\ndata: {\"choices\":[" + listOf("{}", 1<<20) + "]}\n\n",
	} {
		for _, api := range []string{"openai-completions", "mistral-conversations", "google-generative-ai"} {
			if api == "google-generative-ai" && name == "behind half a string" {
				continue // not valid JSON in that place
			}
			t.Run(api+"/"+name, func(t *testing.T) {
				t.Parallel()
				tooLarge(t, api, func(w http.ResponseWriter, _ *http.Request) {
					beginHead(api, w)
					_, _ = io.WriteString(w, body)
				})
			})
		}
	}
}

// TestOneEventTakesLittleMemory has an event of the maximum length, of which little is sent over the network.
func TestOneEventTakesLittleMemory(t *testing.T) { // not parallel, because it measures memory
	for _, api := range []string{"openai-completions", "openai-responses"} {
		var body bytes.Buffer
		z := gzip.NewWriter(&body)
		event := strings.Replace(listsOfNothing[api][0], "§", listOf("{}", 15<<20), 1)
		if _, err := z.Write(bodyOfEvent(api, event)); err != nil || z.Close() != nil {
			t.Fatal(err)
		}
		bounded(t, func() {
			tooLarge(t, api, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Encoding", "gzip")
				beginHead(api, w)
				_, _ = w.Write(body.Bytes())
			})
		})
	}
}

// TestLargeEventsOfFewValues checks that an event is not refused because it is long.
func TestLargeEventsOfFewValues(t *testing.T) {
	t.Parallel()
	for _, api := range served() {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			for _, call := range []bool{false, true} {
				reply := wireReplies[api].text
				if call {
					reply = wireReplies[api].call
				}
				long := strings.Repeat("words,[{", 1<<17)
				body := bytes.Replace(reply(3), []byte("words "), []byte(long), 1)
				if api == "bedrock-converse-stream" {
					head, delta := endless(api, call, 1<<20)
					body = append(append(head, delta...), frameBody(wireFrame{"messageStop", `{"stopReason":"end_turn"}`})...)
				}
				req := serveFault(t, api, func(w http.ResponseWriter, _ *http.Request) {
					beginHead(api, w)
					_, _ = w.Write(body)
				})
				if m := final(t, t.Context(), api, req); m.StopReason == schemas.StopError {
					t.Errorf("call %t: %q", call, m.ErrorMessage)
				}
			}
		})
	}
}

// TestArgumentsOfManyValues has a call whose arguments arrive in pieces, each with few values.
func TestArgumentsOfManyValues(t *testing.T) {
	t.Parallel()
	for _, arguments := range []string{`{"a":[` + listOf("0", 1<<20) + "]}", "[" + strings.Repeat("{} ", 1<<18)} {
		var body strings.Builder
		for len(arguments) > 0 {
			n := min(len(arguments), 10_000)
			fmt.Fprintf(&body, `data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"ls",`+
				`"arguments":%q}}]}}]}`+"\n\n", arguments[:n])
			arguments = arguments[n:]
		}
		tooLarge(t, "openai-completions", func(w http.ResponseWriter, _ *http.Request) {
			beginHead("openai-completions", w)
			_, _ = io.WriteString(w, body.String()+"data: [DONE]\n\n")
		})
	}
}

// TestFramesThatSayTheyAreLong has frames of Bedrock with longer headers, or a longer payload, than allowed.
func TestFramesThatSayTheyAreLong(t *testing.T) { // not parallel, because it measures memory
	const api = "bedrock-converse-stream"
	prelude := func(all, headers uint32) []byte {
		b := binary.BigEndian.AppendUint32(nil, all)
		b = binary.BigEndian.AppendUint32(b, headers)
		return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	}
	for name, c := range map[string]struct{ head, piece []byte }{
		"headers":                       {prelude(1<<30, 1<<30-16), bytes.Repeat([]byte{1, 'a', 0}, 20_000)},
		"payload":                       {prelude(1<<30, 0), bytes.Repeat([]byte{'a'}, 60_000)},
		"headers longer than the frame": {prelude(100, 1<<31), bytes.Repeat([]byte{1, 'a', 0}, 20_000)},
	} {
		t.Run(name, func(t *testing.T) {
			req := serveFault(t, api, func(w http.ResponseWriter, _ *http.Request) {
				beginHead(api, w)
				flood(w, c.head, c.piece)
			})
			req.Limits = providers.Limits{}
			bounded(t, func() {
				last := finalEvent(t, t.Context(), api, req)
				if last.FailureCode != schemas.FailureTooLarge {
					t.Errorf("%s %.200q", last.FailureCode, last.Message.ErrorMessage)
				}
			})
		})
	}
}
