package eventstore_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// A log verifies with the arguments of a model's calls exactly as the model wrote them, whether they are stored in the
// stream or in the object store.
func TestVerifyAcceptsArgumentsAsModelsWroteThem(t *testing.T) {
	t.Parallel()
	s, _ := newJetStream(t, eventstore.Options{})
	log := open(t, s, "s1")
	var seq uint64
	for _, args := range []string{
		`{"a":1,"a":2}`,
		`{"a":1e999}`,
		`{"a":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}`,
		`{"a":` + strings.Repeat("[", 8000) + strings.Repeat("]", 8000) + `}`,
		`{"a":1,"a":"` + strings.Repeat("x", 300<<10) + `"}`,
		`["a"]`,
	} {
		reply := schemas.ValidReply(&schemas.AssistantMessage{
			Content:    schemas.Contents{schemas.ToolCall{ID: "t1", Name: "echo", Arguments: json.RawMessage(args)}},
			StopReason: schemas.StopToolUse,
		})
		for _, data := range []schemas.EventData{
			&schemas.MessageEnd{MessageID: "m1", Message: schemas.AnyMessage{Message: reply}},
			&schemas.ToolExecutionStart{ToolCallID: "t1", ToolName: "echo", Args: reply.Content.ToolCalls()[0].Arguments},
		} {
			seq++
			e := event("s1", seq, "a")
			e.Data = data
			mustAppend(t, log, e)
		}
	}
	r, err := s.Verify(ctxOf(t), "s1", eventstore.VerifyOptions{Version: 1})
	if err != nil || !r.OK() || r.Events != seq {
		t.Errorf("%d of %d events, fault %v, error %v", r.Events, seq, r.Bad, err)
	}
}
