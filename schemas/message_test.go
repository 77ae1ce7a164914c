package schemas_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/schemas"
)

const zeroUsage = `{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":0,"cost":{"input":0,` +
	`"output":0,"cacheRead":0,"cacheWrite":0,"total":0}}`

// What is written in the order of the types comes back byte for byte: signatures with any character, the member order
// of arguments and details, numbers as they were written.
func TestMessagesRoundTripByteForByte(t *testing.T) {
	for name, in := range map[string]string{
		"user": `{"role":"user","content":[{"type":"text","text":"a <b> & c"},{"type":"image",` +
			`"data":"aGk=","mimeType":"image/png"}],"timestamp":5}`,
		"text signature": `{"role":"assistant","content":[{"type":"text","text":"","textSignature":"{\"v\":1,` +
			`\"id\":\"m<>&\"}"}],"usage":` + zeroUsage + `,"stopReason":"stop"}`,
		"thinking signature": `{"role":"assistant","content":[{"type":"thinking","thinking":"",` +
			`"thinkingSignature":"EuYB+/=","redacted":true}],"usage":` + zeroUsage + `,"stopReason":"stop"}`,
		"arguments": `{"role":"assistant","content":[{"type":"toolCall","id":"a|b","name":"t","arguments":{"z":1,` +
			`"a":{"y":[1.0,1e2,12345678901234567890],"b":null},"é":"\u00e9</script>"},"thoughtSignature":"+/<>"}],"usage":` +
			zeroUsage + `,"stopReason":"toolUse"}`,
		"details": `{"role":"toolResult","toolCallId":"a","toolName":"t","content":[],"details":{"z":0.10,` +
			`"a":"<&>"},"isError":true}`,
		"details null": `{"role":"toolResult","toolCallId":"a","toolName":"t","content":[],"details":null,"isError":false}`,
		"details text": `{"role":"toolResult","toolCallId":"a","toolName":"t","content":[],"details":"x","isError":false}`,
		"error": `{"role":"assistant","content":[],"api":"a","provider":"p","model":"m","responseModel":"n",` +
			`"responseId":"r","usage":` + zeroUsage + `,"stopReason":"aborted","errorMessage":"no","timestamp":1}`,
		"custom": `{"z":1,"role":"note","a":{"c":1.50,"b":"<>"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			m, err := schemas.DecodeMessage([]byte(in))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(in, string(marshal(t, m))); d != "" {
				t.Errorf("message (-want +got):\n%s", d)
			}
			list := `[` + in + `,` + in + `]`
			var ms schemas.Messages
			if err := json.Unmarshal([]byte(list), &ms); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(list, string(marshal(t, ms))); d != "" {
				t.Errorf("messages (-want +got):\n%s", d)
			}
			event := `{"messageId":"m1","message":` + in + `}`
			e, err := schemas.DecodeEventData(schemas.EventMessageEnd, []byte(event))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(event, string(marshal(t, e))); d != "" {
				t.Errorf("message_end (-want +got):\n%s", d)
			}
		})
	}
}

// White space between tokens is the only thing that goes.
func TestRawJSONIsCompacted(t *testing.T) {
	m, err := schemas.DecodeMessage([]byte(` { "role" : "note" , "a" : [ 1 , 2 ] } `))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(marshal(t, m)); got != `{"role":"note","a":[1,2]}` {
		t.Error(got)
	}
}

func TestUserContentMayBeAString(t *testing.T) {
	m, err := schemas.DecodeMessage([]byte(`{"role":"user","content":"hi \"you\"\nthere"}`))
	if err != nil {
		t.Fatal(err)
	}
	want := &schemas.UserMessage{Content: schemas.Contents{schemas.Text{Text: "hi \"you\"\nthere"}}}
	if d := cmp.Diff(schemas.Message(want), m); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestDecodeMessageRefuses(t *testing.T) {
	for name, in := range map[string]string{
		"no role": `{"content":[]}`, "empty role": `{"role":""}`, "null": `null`, "text": `"hi"`, "broken": `{"role":`,
		"content of a wrong type": `{"role":"user","content":7}`, "block of a wrong type": `{"role":"user","content":["hi"]}`,
		"block without type": `{"role":"user","content":[{"text":"hi"}]}`, "null block": `{"role":"user","content":[null]}`,
	} {
		if m, err := schemas.DecodeMessage([]byte(in)); err == nil || m != nil {
			t.Errorf("%s: %v, %v", name, m, err)
		}
	}
}

func TestUnknownTypes(t *testing.T) {
	var contents schemas.Contents
	var event schemas.StreamEvent
	for what, err := range map[string]error{
		"content":      json.Unmarshal([]byte(`[{"type":"text","text":"a"},{"type":"video"}]`), &contents),
		"message":      last(schemas.DecodeMessage([]byte(`{"role":"user","content":[{"type":"video"}]}`))),
		"stream event": json.Unmarshal([]byte(`{"type":"image_start"}`), &event),
		"event":        last(schemas.DecodeEventData("agent_dance", []byte(`{}`))),
		"live event":   last(schemas.DecodeEventData(schemas.EventMessageUpdate, []byte(`{}`))),
		"update":       last(schemas.DecodeUpdateData(schemas.EventMessageEnd, []byte(`{}`))),
		"command":      last(schemas.DecodeCommandData("dance", []byte(`{}`))),
		"CloudEvents":  last(schemas.ParseCloudEventType("com.example.thing")),
		"version":      last(schemas.ParseCloudEventType("dev.loopbus.agent_start.v2")),
	} {
		var unknown *schemas.UnknownTypeError
		if !errors.As(err, &unknown) || unknown.What == "" {
			t.Errorf("%s: error %v, want an *UnknownTypeError", what, err)
		}
	}
}

func TestMessageEndNeedsAMessage(t *testing.T) {
	for _, in := range []string{`{"messageId":"m1"}`, `{"messageId":"m1","message":null}`} {
		if v, err := schemas.DecodeEventData(schemas.EventMessageEnd, []byte(in)); err == nil {
			t.Errorf("%s: %+v", in, v)
		}
	}
}

func TestNilContentIsWrittenAsList(t *testing.T) {
	for want, v := range map[string]any{
		`{"role":"user","content":[]}`:                         &schemas.UserMessage{},
		`{"content":[]}`:                                       schemas.ToolResult{},
		`{"type":"toolCall","id":"","name":"","arguments":{}}`: schemas.ToolCall{},
		`[]`:   schemas.Messages(nil),
		`null`: schemas.AnyMessage{},
		`{"content":[{"type":"text","text":"no"}],"details":{}}`: schemas.ErrorResult("no"),
		`{"content":[{"type":"text","text":"a<b"}]}`:             schemas.TextResult("a<b"),
	} {
		if got := string(marshal(t, v)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestInputAsMessages(t *testing.T) {
	at := time.UnixMilli(1767225600123)
	image := schemas.Image{Data: "aGk=", MimeType: "image/png"}
	custom := &schemas.CustomMessage{Role: "note", Raw: []byte(`{"role":"note"}`)}
	for name, test := range map[string]struct {
		in   schemas.Input
		want schemas.Messages
	}{
		"text": {schemas.Input{Text: "hi"}, schemas.Messages{&schemas.UserMessage{
			Content: schemas.Contents{schemas.Text{Text: "hi"}}, Timestamp: 1767225600123}}},
		"text and image": {schemas.Input{Text: "hi", Images: []schemas.Image{image}}, schemas.Messages{&schemas.UserMessage{
			Content: schemas.Contents{schemas.Text{Text: "hi"}, image}, Timestamp: 1767225600123}}},
		"messages": {schemas.Input{Messages: schemas.Messages{custom}}, schemas.Messages{custom}},
	} {
		if d := cmp.Diff(test.want, test.in.AsMessages(at)); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}

func TestStreamEventJSON(t *testing.T) {
	call := schemas.ToolCall{ID: "a", Name: "ls", Arguments: json.RawMessage(`{"z":1,"a":2}`)}
	for want, e := range map[string]schemas.StreamEvent{
		`{"type":"start"}`:                                  {Type: schemas.StreamStart},
		`{"type":"text_start","contentIndex":0}`:            {Type: schemas.StreamTextStart},
		`{"type":"text_delta","contentIndex":1,"delta":""}`: {Type: schemas.StreamTextDelta, ContentIndex: 1},
		`{"type":"text_delta","contentIndex":1,"delta":"a<b"}`: {Type: schemas.StreamTextDelta, ContentIndex: 1,
			Delta: "a<b"},
		`{"type":"text_end","contentIndex":1,"content":"ab"}`: {Type: schemas.StreamTextEnd, ContentIndex: 1,
			Content: "ab"},
		`{"type":"thinking_start","contentIndex":2}`: {Type: schemas.StreamThinkingStart, ContentIndex: 2},
		`{"type":"thinking_delta","contentIndex":2,"delta":"x"}`: {Type: schemas.StreamThinkingDelta, ContentIndex: 2,
			Delta: "x"},
		`{"type":"thinking_end","contentIndex":2,"content":""}`: {Type: schemas.StreamThinkingEnd, ContentIndex: 2},
		`{"type":"toolcall_start","contentIndex":3}`:            {Type: schemas.StreamToolCallStart, ContentIndex: 3},
		`{"type":"toolcall_delta","contentIndex":3,"delta":"{\""}`: {Type: schemas.StreamToolCallDelta, ContentIndex: 3,
			Delta: `{"`},
		`{"type":"done","reason":"stop"}`:     {Type: schemas.StreamDone, Reason: schemas.StopStop},
		`{"type":"error","reason":"aborted"}`: {Type: schemas.StreamError, Reason: schemas.StopAborted},
		`{"type":"toolcall_start","contentIndex":3,"id":"a","toolName":"ls"}`: {
			Type: schemas.StreamToolCallStart, ContentIndex: 3, ToolCall: &schemas.ToolCall{ID: "a", Name: "ls"}},
		`{"type":"toolcall_end","contentIndex":3,"toolCall":{"type":"toolCall","id":"a","name":"ls","arguments":{"z":1,` +
			`"a":2}}}`: {
			Type: schemas.StreamToolCallEnd, ContentIndex: 3, ToolCall: &call},
	} {
		if got := string(marshal(t, e)); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		var back schemas.StreamEvent
		if err := json.Unmarshal([]byte(want), &back); err != nil {
			t.Errorf("%s: %v", want, err)
		}
		if d := cmp.Diff(e, back); d != "" {
			t.Errorf("%s (-want +got):\n%s", want, d)
		}
	}
}

// The message of a terminal event is in message_end and never goes over the wire twice.
func TestStreamEventLeavesTheMessageOut(t *testing.T) {
	e := schemas.StreamEvent{Type: schemas.StreamDone, Reason: schemas.StopStop,
		Message: &schemas.AssistantMessage{Content: schemas.Contents{schemas.Text{Text: "hi"}}}}
	if got := string(marshal(t, e)); got != `{"type":"done","reason":"stop"}` {
		t.Error(got)
	}
}

func TestStreamEventRefusesACallThatIsNone(t *testing.T) {
	var e schemas.StreamEvent
	if err := json.Unmarshal([]byte(`{"type":"toolcall_end","contentIndex":0}`), &e); err == nil {
		t.Errorf("%+v", e)
	}
}
