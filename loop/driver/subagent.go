package driver

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/schemas/toolargs"
)

// A command to a sub-agent or to the parent is stored in the other session's inbox before the log records it (decision
// 113). If the process dies in between, the state still owes the command, and the next process stores it again with the
// same id.

// subagentOf returns the session that a call has begun, "" if none, and its sub-agent, nil if that has ended.
func (d *Driver) subagentOf(key schemas.CallKey) (session string, child *loop.Child) {
	d.View(func(s *loop.State) {
		if call := s.Call(key); call != nil {
			session = call.Subagent
		}
		if c := s.Child(key); c != nil {
			child = new(*c)
		}
	})
	return session, child
}

// beginSubagent chooses and records the session that a call of the tool agent begins, unless that is in the log. It
// returns a refusalError if the call is refused.
func (d *Driver) beginSubagent(ctx context.Context, call loop.Call, raw json.RawMessage) (err error) {
	ours := false
	d.View(func(s *loop.State) { ours = s.BeginsSubagent(call) })
	if d.o.Outbox == nil || !ours {
		return nil
	}
	var args schemas.SubagentCall
	if err := toolargs.Decode(raw, &args); err != nil || args.Prompt == "" || args.Budget < 0 || args.Budget > 1 {
		return refusalError("The sub-agent has no prompt, or its budget is no share") // a hook has changed the arguments
	}
	d.View(func(s *loop.State) {
		begun := s.Call(call.Key)
		if begun == nil || begun.Subagent != "" {
			return
		}
		start, refusal := s.Subagent(begun, args)
		if refusal == "" {
			refusal = promptRefusal(d.promptOf(loop.Child{Start: *start, Nonce: begun.Nonce}, args))
		}
		if refusal != "" {
			err = refusalError(refusal)
			return
		}
		_, err = d.append(ctx, start, "")
	})
	return err
}

// promptOf returns the first command of a sub-agent.
func (d *Driver) promptOf(c loop.Child, args schemas.SubagentCall) *schemas.SubagentPrompt {
	return &schemas.SubagentPrompt{Parent: c.Link(d.session), Text: args.Prompt,
		SubagentSettings: c.Start.SubagentSettings}
}

// promptRefusal returns why a sub-agent's session would reject its prompt, "" if it would not. Nobody would tell the
// parent, which would wait.
func promptRefusal(p *schemas.SubagentPrompt) string {
	data, err := schemas.Marshal(p)
	if err == nil && len(data) > schemas.MaxCommandBytes {
		err = fmt.Errorf("its prompt has %d bytes of JSON, more than %d", len(data), schemas.MaxCommandBytes)
	}
	if err == nil {
		_, _, err = schemas.ParseCommand(p.CommandKind(), data)
	}
	if err != nil {
		return "No sub-agent can begin with these arguments: " + err.Error()
	}
	return ""
}

// promptSubagent stores the prompt in the inbox of a sub-agent; a call in the background is answered at once. If c is
// nil the sub-agent has ended: it got its prompt, and its result arrived before a process knew that.
func (d *Driver) promptSubagent(ctx context.Context, session string, c *loop.Child, req schemas.ToolRequest) error {
	if c == nil {
		d.answerBackground(req.Call, session)
		return nil
	}
	var args schemas.SubagentCall
	if err := toolargs.Decode(req.Arguments, &args); err != nil {
		return fmt.Errorf("arguments of call %s: %w", req.Call, err)
	}
	if d.o.Outbox == nil { // the log was moved to a process without a bus
		d.answer(req.Call, schemas.ErrorResult(textNoOutbox), true)
		return nil
	}
	link := c.Link(d.session)
	err := d.store(ctx, schemas.Command{
		ID: link.PromptID(), Session: session, TraceParent: req.TraceParent,
		Data: d.promptOf(*c, args),
	})
	if err == nil && c.Start.Background {
		d.answerBackground(req.Call, session)
	}
	return err
}

// answerBackground answers a call whose sub-agent works in the background.
func (d *Driver) answerBackground(call schemas.CallKey, session string) {
	text := fmt.Sprintf("The sub-agent works in session %s. Its result will come as a message.", session)
	d.answer(call, subagentResult(session, text, nil), false)
}

// subagentResult returns the result of a call that has begun a session.
func subagentResult(session, text string, r *schemas.SubagentResult) schemas.ToolResult {
	details := map[string]any{"sessionId": session}
	if r != nil {
		details["reason"], details["usage"] = r.Reason, r.Usage
	}
	result := schemas.TextResult(text)
	result.Details, _ = schemas.Marshal(details) // strings and numbers always encode
	return result
}

// awaits reports whether a sub-agent's result is the result of a call that has none. The caller holds the lock.
func (d *Driver) awaits(r *schemas.SubagentResult) bool {
	call := d.state.Call(r.Call)
	return d.state.Answers(r) && call != nil && call.End == nil && !d.state.Child(r.Call).Start.Background
}

// answerOf converts a sub-agent's result to that of its call. The caller holds the lock.
func (d *Driver) answerOf(r *schemas.SubagentResult) *schemas.ToolResponse {
	took := elapsed(d.state.Child(r.Call).StartedAt, d.o.Clock.Now())
	return &schemas.ToolResponse{
		Call: r.Call, IsError: r.IsError, DurationMs: took,
		Result: subagentResult(r.Session, r.Text, r),
	}
}

// endSubagent puts into the log the result of a sub-agent whose call ended while the result waited.
func (d *Driver) endSubagent(ctx context.Context, a arrival) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, err := d.accept(ctx, schemas.Command{ID: a.cause, Session: d.session, Data: a.subagent})
	return err
}

// abortSubagent stores an abort in the inbox of a sub-agent.
func (d *Driver) abortSubagent(ctx context.Context, step loop.AbortSubagent) error {
	var err error
	if d.o.Outbox != nil { // nil if the log was moved to a process without a bus
		err = d.store(ctx, schemas.Command{
			ID: step.Link.AbortID(), Session: step.Session, Data: &schemas.SubagentAbort{Parent: step.Link},
		})
	}
	if err != nil {
		return fmt.Errorf("session %s: abort its sub-agent %s: %w", d.session, step.Session, err)
	}
	d.View(func(s *loop.State) {
		if c := s.Child(step.Link.Call); c != nil && c.Abort == loop.AbortOwed { // its result may have arrived
			_, err = d.append(ctx, step.Then, "")
		}
	})
	return err
}

// textNoOutbox is why a result cannot be sent after the log was moved to a process without a bus.
const textNoOutbox = "this process reaches no other sessions"

// report sends the result of this session's run to its parent.
func (d *Driver) report(ctx context.Context, step loop.Report) error {
	if d.o.Outbox == nil {
		step.Then.Undelivered = textNoOutbox
		return d.emit(ctx, step.Then, "")
	}
	err := d.store(ctx, schemas.Command{ID: step.Result.ID(step.To), Session: step.To, Data: &step.Result})
	if err != nil {
		return fmt.Errorf("session %s: report to its parent %s: %w", d.session, step.To, err)
	}
	return d.emit(ctx, step.Then, "")
}

// store stores a command in the inbox of another session, once everything that led to it is stored here.
func (d *Driver) store(ctx context.Context, c schemas.Command) error {
	if err := d.Flush(ctx); err != nil {
		return err
	}
	if err := d.verifyOwnership(ctx); err != nil {
		return err
	}
	c.Source = d.o.Source
	return d.outside("outbox", func() error { return d.o.Outbox.Store(ctx, c) })
}
