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
