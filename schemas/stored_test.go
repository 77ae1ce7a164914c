package schemas

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// oddJSON is JSON of models, tools and hooks that other readers take differently, or not at all: an event holds it.
func oddJSON() map[string]json.RawMessage {
	deep := func(levels int) json.RawMessage {
		return json.RawMessage(`{"v":` + strings.Repeat("[", levels-1) + strings.Repeat("]", levels-1) + `}`)
	}
	return map[string]json.RawMessage{
		"a name twice":        json.RawMessage(`{"a":1,"a":{"b":2,"b":3}}`),
		"a number too large":  json.RawMessage(`{"a":[1e999,-1e999,1e-999,1e-9999999]}`),
		"many digits":         json.RawMessage(`{"a":` + strings.Repeat("9", 400) + `}`),
		"257 levels":          deep(257),
		"as deep as it goes":  deep(maxNested),
		"another case":        json.RawMessage(`{"Type":"text","Id":"x","ID":"y"}`),
		"not an object":       json.RawMessage(`["a"]`),
		"nothing":             json.RawMessage(`null`),
		"half of a surrogate": json.RawMessage(`{"a":"\ud83d"}`),
	}
}

// What a driver stores of a model's reply, of a tool's result and of a hook's answer, Verify takes, as every reader of
// ours does.
func TestWhatIsStoredIsValid(t *testing.T) {
	t.Parallel()
	for name, raw := range oddJSON() {
		reply := ValidReply(&AssistantMessage{Content: Contents{ToolCall{ID: "t1", Name: "echo", Arguments: raw}}})
		result := ValidResult(ToolResult{Details: raw})
		for _, data := range []EventData{
			&MessageEnd{MessageID: "m1", Message: AnyMessage{Message: reply}},
			&ToolExecutionStart{ToolCallID: "t1", ToolName: "echo", Args: reply.Content.ToolCalls()[0].Arguments},
			&ToolExecutionEnd{ToolCallID: "t1", ToolName: "echo", Call: "c3", Result: result},
			&MessageEnd{MessageID: "m2", Message: AnyMessage{
				Message: &ToolResultMessage{ToolCallID: "t1", ToolName: "echo", Details: result.Details},
			}},
			&ApprovalRequested{Call: "c3", ToolCallID: "t1", ToolName: "echo", Args: raw},
			&Custom{CustomType: "x", Data: raw},
		} {
			t.Run(name+"/"+string(data.EventType()), func(t *testing.T) {
				event := Event{Session: "s1", Seq: 1, Time: time.Unix(1, 0), Source: "/x", Data: data}
				header, payload, err := EncodeCommit(event)
				if err != nil {
					t.Fatal("not stored: ", err)
				}
				stored, err := SplitLog("s1", header, payload)
				if err != nil {
					t.Fatal(err)
				}
				if err := ValidateEvent(data.EventType(), stored[0].Raw); err != nil {
					t.Error(err)
				}
				if _, err := stored[0].Decode(nil); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// A model or a tool in the same process, or a model behind the bus, may answer what no schema has looked at.
func TestOddRepliesAndResultsAreStoredValid(t *testing.T) {
	t.Parallel()
	odd := Contents{Image{"!!", "image/png"}, Image{"aaaa", ""}, Image{"", "image/png"}, Image{"aaaa", "image/png"},
		Thinking{Thinking: "a"}, ToolCall{}, ToolCall{Arguments: []byte("{")}, nil}
	var data []EventData
	for _, c := range odd {
		data = append(data, &ToolExecutionEnd{ToolCallID: "t1", ToolName: "a", Call: "c3",
			Result: ValidResult(ToolResult{Content: Contents{c}, Details: []byte("{")})})
		for _, reason := range []StopReason{"", "tired", StopLength} {
			for _, at := range []int64{-1, 5, 1 << 62} {
				reply := ValidReply(&AssistantMessage{Content: Contents{c}, StopReason: reason, Timestamp: at})
				data = append(data, &MessageEnd{MessageID: "m1", Message: AnyMessage{Message: reply}})
			}
		}
	}
	for _, d := range data {
		raw, err := AppendData(nil, d)
		if err == nil {
			err = ValidateEvent(d.EventType(), raw)
		}
		if err != nil {
			t.Errorf("%+v: %v", d, err)
		}
	}
	picture := Contents{Image{"aaaa", "image/png"}}
	if got := ValidResult(ToolResult{Content: picture}).Content[0]; got != picture[0] {
		t.Errorf("a picture became %v", got)
	}
}

// An event's own members are as strict as ever: there two readers must not read two things.
func TestMembersOfEventsAreThereOnce(t *testing.T) {
	t.Parallel()
	for what, raw := range map[string]string{
		"member of the event": `{"toolCallId":"t1","toolName":"a","toolName":"b","args":{}}`,
		"described twice":     `{"toolCallId":"t1","toolName":"a","args":{},"args":{}}`,
	} {
		if err := ValidateEvent(EventToolExecutionStart, []byte(raw)); err == nil {
			t.Error(what, ": taken")
		}
	}
	block := `{"type":"toolCall","id":"t1","name":"a","name":"b","arguments":{}}`
	usage := `{"input":1,"output":1e999,"cacheRead":0,"cacheWrite":0,"totalTokens":0,` +
		`"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}}`
	zero := strings.Replace(usage, "1e999", "0", 1)
	for _, raw := range []string{
		`{"messageId":"m1","message":{"role":"assistant","content":[` + block + `],"usage":` + zero +
			`,"stopReason":"stop"}}`,
		`{"messageId":"m1","message":{"role":"assistant","content":[],"usage":` + usage + `,"stopReason":"stop"}}`,
		`{"messageId":"m1","message":{"role":"user","role":"assistant","content":[]}}`,
	} {
		if err := ValidateEvent(EventMessageEnd, []byte(raw)); err == nil {
			t.Errorf("taken: %s", raw)
		}
	}
}
