package history

import (
	"github.com/loopbus/loopbus/schemas"
)

// begun is a call that the log has begun.
type begun struct {
	seq   uint64
	start *schemas.ToolExecutionStart
	ends  []*schemas.ToolExecutionEnd
}

// checkCalls wants each call that was begun to have one result, and what the tools counted to agree with it.
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
				s.fail(Foreign, e.Seq, []string{string(d.Call)}, "the result of a call that was not begun")
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
		s.fail(Stuck, c.seq, ids, "call of %s without a result", c.start.ToolName)
		return
	case len(c.ends) > 1:
		s.fail(Doubled, c.seq, ids, "call of %s with %d results", c.start.ToolName, len(c.ends))
	}
	call, counted := s.Counted(s.name, c.start, key)
	if !counted {
		return
	}
	if ids = append(ids, call.Key); s.forgotten(call.Key) {
		return
	}
	if s.asked[call.Key] {
		s.fail(Doubled, c.seq, ids, "the model's one call of %s was begun before", c.start.ToolName)
	}
	s.asked[call.Key] = true
	n, success := s.Executions[call.Key], !c.ends[0].IsError
	if !call.Effect.Repeatable() && n > 1 {
		s.fail(Doubled, c.seq, ids, "unsafe call of %s executed %d times", c.start.ToolName, n)
	}
	if success && n == 0 {
		s.fail(Result, c.seq, ids, "call of %s has the result of a success and was not executed", c.start.ToolName)
	}
}
