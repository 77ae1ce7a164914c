package driver_test

import (
	"context"
	"iter"
	"testing"
	"time"

	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

// codedModel fails every request with a text and a code.
type codedModel struct {
	text string
	code schemas.FailureCode
	n    int
}

func (m *codedModel) Stream(context.Context, schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	return func(yield func(schemas.StreamEvent, error) bool) {
		m.n++
		yield(schemas.StreamEvent{
			Type: schemas.StreamError, Reason: schemas.StopError, FailureCode: m.code, Message: failed(m.text),
		}, nil)
	}
}

// TestFailureCodeDecidesOnRetry tests that the text of a failure counts only if the reply has no code, and that the
// code is in the log.
func TestFailureCodeDecidesOnRetry(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		model    codedModel
		requests int
	}{
		"a code after which asking again may help": {codedModel{text: "what?", code: schemas.FailureRateLimited}, 4},
		"a code after which it does not":           {codedModel{text: "overloaded", code: schemas.FailureAuth}, 1},
		"a code that is not known":                 {codedModel{text: "overloaded", code: "of_the_future"}, 1},
		"no code":                                  {codedModel{text: "overloaded"}, 4},
		"no code, and a text that says nothing":    {codedModel{text: "what?"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			model := c.model
			r := looptest.New(t, &model, retrying(time.Millisecond))
			r.Deliver("p1", looptest.Prompt("go"))
			if model.n != c.requests {
				t.Errorf("%d requests, want %d", model.n, c.requests)
			}
			for _, e := range r.Events() {
				end, ok := e.Data.(*schemas.MessageEnd)
				if !ok || end.Message.MessageRole() != schemas.RoleAssistant {
					continue
				}
				if end.FailureCode != c.model.code.Known() || end.Retryable != (c.requests > 1) {
					t.Errorf("message_end has the code %q, retryable %t", end.FailureCode, end.Retryable)
				}
			}
		})
	}
}
