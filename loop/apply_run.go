package loop

import (
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// applyToRun folds an event of the run under way.
func (s *State) applyToRun(r *Run, e schemas.Event) {
	switch d := e.Data.(type) {
	case *schemas.TurnStart:
		if r.Turn == nil {
			r.Turn, r.Last = &Turn{ID: e.TurnID}, nil
			if r.Retrying != nil {
				r.Retrying.Waiting = false
			}
		}
	case *schemas.AutoRetryStart:
		s.retryStart(r, e.Time, d)
	case *schemas.AutoRetryEnd:
		s.retryEnd(r, d)
	case *schemas.ModelFallback:
		s.fallBack(r, d)
	case *schemas.BudgetWarning:
		r.warn(d.Scope)
	case *schemas.AgentEnd:
		s.endSubagentRun(r, d)
		s.Run, s.LastEnd = nil, d
	default:
		if r.Turn != nil {
			s.applyToTurn(r, e)
		}
	}
}

func (s *State) applyToTurn(r *Run, e schemas.Event) {
	t := r.Turn
	switch d := e.Data.(type) {
	case *schemas.MessageStart:
		s.messageStart(r, d)
	case *schemas.MessageEnd:
		s.messageEnd(r, d)
	case *schemas.ToolExecutionStart:
		if c := t.unstarted(d.ToolCallID); c != nil {
			c.Key, c.StartSeq, c.StartedAt, c.Nonce = schemas.NewCallKey(e.Seq), e.Seq, e.Time, d.Nonce
			if s.ours(*c, schemas.ToolSessionBranch) {
				r.Branches++
				c.Branch = r.Branches
			}
		}
	case *schemas.ApprovalRequested:
		s.approvalRequested(e.Time, d)
	case *schemas.ToolExecutionEnd:
		if c := s.Call(d.Call); c != nil && c.End == nil { // later results change nothing
			c.End, c.EndedAt = d, e.Time
		}
	case *schemas.TurnEnd:
		if t.Reply != nil {
			s.turnEnd(r, t)
		}
	}
}

// unstarted returns the first call with the given id that has not begun; models do repeat ids.
func (t *Turn) unstarted(id string) *Call {
	for i := range t.Calls {
		if c := &t.Calls[i]; c.ToolCall.ID == id && c.Key == "" {
			return c
		}
	}
	return nil
}

func (s *State) messageStart(r *Run, d *schemas.MessageStart) {
	if m := s.Announced(d); m != nil {
		r.Open = &Entry{ID: d.MessageID, Message: schemas.AnyMessage{Message: m}}
	} else if d.Role == schemas.RoleAssistant {
		r.Turn.Streaming = d.MessageID
	}
}

// Announced returns the message that a message_start announces in this state, or nil: the next message that a poll took
// out of a queue, or the result of a call that has ended. A reply is unknown before its message_end.
func (s *State) Announced(d *schemas.MessageStart) schemas.Message {
	r := s.Run
	if r == nil || r.Turn == nil {
		return nil
	}
	if len(r.Inject) > 0 && len(r.Injected) < len(r.Inject[0].Messages) {
		if m := r.Inject[0].Messages[len(r.Injected)]; m.MessageRole() == d.Role {
			return m
		}
	}
	if d.Role == schemas.RoleToolResult && r.Turn.Reply != nil {
		if c := r.Turn.unrecorded(d.ToolCallID); c != nil {
			return c.message()
		}
	}
	return nil
}

// unrecorded returns the first ended call with the given id whose result is not in the transcript.
func (t *Turn) unrecorded(id string) *Call {
	for i := range t.Calls {
		if c := &t.Calls[i]; c.ToolCall.ID == id && c.End != nil && c.MessageID == "" {
			return c
		}
	}
	return nil
}

// message returns the tool result as it stands in the transcript.
func (c *Call) message() *schemas.ToolResultMessage {
	return &schemas.ToolResultMessage{
		ToolCallID: c.ToolCall.ID, ToolName: c.ToolCall.Name,
		Content: c.End.Result.Content, Details: c.End.Result.Details, IsError: c.End.IsError,
		Timestamp: unixMilli(c.EndedAt),
	}
}

func unixMilli(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func (s *State) messageEnd(r *Run, d *schemas.MessageEnd) {
	t := r.Turn
	reply, ok := d.Message.Message.(*schemas.AssistantMessage)
	if ok && t.Streaming == d.MessageID && (t.Reply == nil || d.Failure) {
		t.Streaming = ""
		if !d.Interrupted {
			s.reply(r, d, reply)
		}
		return
	}
	if r.Open == nil || r.Open.ID != d.MessageID {
		return
	}
	r.Open = nil
	s.record(r, d.MessageID, d.Message.Message)
	if m, ok := d.Message.Message.(*schemas.ToolResultMessage); ok && t.Reply != nil {
		if c := t.unrecorded(m.ToolCallID); c != nil {
			c.MessageID = d.MessageID
		}
		return
	}
	r.Injected = append(r.Injected, d.MessageID)
}

func (s *State) reply(r *Run, d *schemas.MessageEnd, reply *schemas.AssistantMessage) {
	t := r.Turn
	t.Reply, t.ReplyID, t.Reason, t.Retryable, t.Calls = reply, d.MessageID, d.TerminationReason, d.Retryable, nil
	t.Overflow = d.FailureCode == schemas.FailureContextOverflow
	s.record(r, d.MessageID, reply)
	if d.Failure {
		r.Failure = d.MessageID
	}
	r.Usage, s.Usage = r.Usage.Add(reply.Usage), s.Usage.Add(reply.Usage)
	if reply.Failed() { // its calls are never executed
		return
	}
	for _, call := range reply.Content.ToolCalls() {
		t.Calls = append(t.Calls, Call{ToolCall: call})
	}
}

func (s *State) record(r *Run, id string, m schemas.Message) {
	entry := Entry{ID: id, Message: schemas.AnyMessage{Message: m}}
	s.Messages = append(s.Messages, entry)
	if r.Detached {
		r.Context = append(r.Context, entry)
	}
	r.New = append(r.New, id)
}

func (s *State) turnEnd(r *Run, t *Turn) {
	out := &Outcome{
		Failed: t.Reply.Failed(), Aborted: t.Reply.StopReason == schemas.StopAborted,
		Reason: t.Reason, Error: t.Reply.ErrorMessage, Retryable: t.Retryable, ReplyID: t.ReplyID, Overflow: t.Overflow,
	}
	if !out.Failed {
		r.Overflow = OverflowNone
	}
	if n := len(t.Calls); n > 0 {
		out.Terminated = true
		for _, c := range t.Calls { // only if every result requests it
			out.Terminated = out.Terminated && c.End != nil && c.End.Result.Terminate
		}
		out.Continue = !out.Terminated
	}
	if t.Reply.ErrorMessage != "" {
		s.ErrorMessage = t.Reply.ErrorMessage
	}
	r.Last, r.Turn, r.Open = out, nil, nil
	r.Turns++
}
