package history

import (
	"github.com/loopbus/loopbus/schemas"
)

// begun is a call in the log.
type begun struct {
	seq   uint64
	start *schemas.ToolExecutionStart
	ends  []*schemas.ToolExecutionEnd
}

// checkCalls checks that each call has one result, and that the executions that the tools counted agree with it.
func (s *sessionCheck) checkCalls() {
	calls := map[schemas.CallKey]*begun{}
	var order []schemas.CallKey
	for _, e := range s.log {
		switch d := e.Data.(type) {
		case *schemas.ToolExecutionStart:
			key := schemas.NewCallKey(e.Seq)
			calls[key] = &begun{seq: e.Seq, start: d}
			order = append(order, key)
		case *schemas.ToolExecutionEnd:
			if c := calls[d.Call]; c != nil {
				c.ends = append(c.ends, d)
			} else {
				s.fail(Foreign, e.Seq, []string{string(d.Call)}, "a result for a call that is not in the log")
			}
		}
	}
	for _, key := range order {
		s.checkCall(key, calls[key])
	}
}

func (s *sessionCheck) checkCall(key schemas.CallKey, c *begun) {
	ids := []string{string(key), c.start.ToolCallID}
	switch {
	case len(c.ends) == 0:
		s.fail(Stuck, c.seq, ids, "the call of %s has no result", c.start.ToolName)
		return
	case len(c.ends) > 1:
		s.fail(Doubled, c.seq, ids, "the call of %s has %d results", c.start.ToolName, len(c.ends))
	}
	call, counted := s.Counted(s.name, c.start, key)
	if !counted {
		return
	}
	if ids = append(ids, call.Key); s.forgotten(call.Key) {
		return
	}
	if s.asked[call.Key] {
		s.fail(Doubled, c.seq, ids, "the log has the model's call of %s twice", c.start.ToolName)
	}
	s.asked[call.Key] = true
	n, success := s.Executions[call.Key], !c.ends[0].IsError
	if !call.Effect.Repeatable() && n > 1 {
		s.fail(Doubled, c.seq, ids, "the unsafe call of %s was executed %d times", c.start.ToolName, n)
	}
	if success && n == 0 {
		s.fail(Result, c.seq, ids, "the call of %s has a successful result but was never executed", c.start.ToolName)
	}
}
