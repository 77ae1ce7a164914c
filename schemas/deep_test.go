package schemas

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func nested(levels int) json.RawMessage {
	return json.RawMessage(`{"v":` + strings.Repeat("[", levels-1) + `"]}\"` + strings.Repeat("[", 20_000) + `"` +
		strings.Repeat("]", levels-1) + `}`)
}

// What is nested too deep for whoever reads it back becomes no part of an event; what is not is left as it is.
func TestWhatIsNestedTooDeepIsNotWritten(t *testing.T) {
	t.Parallel()
	for levels, fits := range map[int]bool{10: true, maxNested: true, maxNested + 1: false, 9999: false} {
		args := nested(levels)
		reply := ValidReply(&AssistantMessage{Content: Contents{ToolCall{ID: "t1", Name: "echo", Arguments: args}}})
		result := ValidResult(ToolResult{Details: args})
		if got := string(reply.Content.ToolCalls()[0].Arguments) == string(args); got != fits {
			t.Errorf("%d levels: arguments are kept: %t", levels, got)
		}
		if got := string(result.Details) == string(args); got != fits {
			t.Errorf("%d levels: details are kept: %t", levels, got)
		}
		for _, data := range []EventData{&ToolExecutionStart{ToolCallID: "t1", ToolName: "echo", Args: args},
			&MessageEnd{MessageID: "m1", Message: AnyMessage{Message: reply}}} {
			header, payload, err := EncodeCommit(Event{Session: "s1", Seq: 1, Time: time.Unix(1, 0), Source: "/x", Data: data})
			if err == nil {
				_, err = DecodeLog("s1", header, payload, nil)
			} else if !fits {
				continue // it is not written
			}
			if err != nil {
				t.Errorf("%d levels of %s: %v", levels, data.EventType(), err)
			}
		}
	}
}

// An event takes as many levels as who checks it reads, with what lies around them, and not one more: it would be
// written, and called invalid for ever.
func TestAnEventIsNestedAsDeepAsItCanBeChecked(t *testing.T) {
	t.Parallel()
	for levels, fits := range map[int]bool{maxNestedData - 1: true, maxNestedData: false, 9990: false} {
		var c Commit
		e := Event{Session: "s1", Seq: 1, Time: time.Unix(1, 0), Source: "/x",
			Data: &ToolExecutionStart{ToolCallID: "t1", ToolName: "echo", Args: nested(levels)}} // a level more
		data, err := AppendData(nil, e.Data)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Add(&e, data, ""); (err == nil) != fits {
			t.Errorf("%d levels of arguments: %v", levels, err)
		}
		if !fits {
			if c.Len() != 0 || c.Size() != 1 {
				t.Errorf("%d levels: a refused event leaves %d events of %d bytes", levels, c.Len(), c.Size())
			}
			continue
		}
		if err := ValidateEvent(e.Data.EventType(), data); err != nil {
			t.Errorf("%d levels are written and not valid: %v", levels, err)
		}
		if !json.Valid(c.Payload()) {
			t.Errorf("%d levels: the commit is no JSON to a reader", levels)
		}
	}
}
