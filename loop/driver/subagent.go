package driver

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/schemas/toolargs"
)

// What goes between a session and its sub-agents is stored in the other's inbox before the log says so (decision 113):
// the process that dies between the two leaves it owed, and the next one stores it again under the same id.

// child returns the session that a call has begun, empty for none, and the sub-agent where it is at work, or nil.
func (d *Driver) child(key schemas.CallKey) (session string, child *loop.Child) {
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

// beginSubagent decides which session a call of the tool agent begins, unless that is decided. The error is a
// refusalError where the call is refused.
func (d *Driver) beginSubagent(ctx context.Context, call loop.Call, raw json.RawMessage) (err error) {
	ours := false
	d.View(func(s *loop.State) { ours = s.BeginsSubagent(call) })
	if d.o.Outbox == nil || !ours {
		return nil
	}
	var args schemas.SubagentCall
	if err := toolargs.Decode(raw, &args); err != nil || args.Prompt == "" || args.Budget < 0 || args.Budget > 1 {
		return refusalError("The sub-agent has no prompt, or its budget is no share") // a service has changed the arguments
	}
	d.View(func(s *loop.State) {
		begun := s.Call(call.Key)
		if begun == nil || begun.Subagent != "" {
			return
		}
		start, refusal := s.Subagent(begun, args)
		if refusal != "" {
			err = refusalError(refusal)
			return
		}
		_, err = d.append(ctx, start, "")
	})
	return err
}

// promptSubagent sends a child its prompt. A call in the background is answered then. A child that is not at work any
// more has had it: its result came before a process knew that the prompt was stored.
func (d *Driver) promptSubagent(ctx context.Context, session string, c *loop.Child, req schemas.ToolRequest) error {
	if c == nil {
		d.answerBackground(req.Call, session)
		return nil
	}
	var args schemas.SubagentCall
	if err := toolargs.Decode(req.Arguments, &args); err != nil {
		return fmt.Errorf("arguments of call %s: %w", req.Call, err)
	}
	if d.o.Outbox == nil { // the log was taken out of its deployment
		d.answer(req.Call, schemas.ErrorResult(textNoOutbox), true)
		return nil
	}
	link := c.Link(d.session)
	err := d.store(ctx, schemas.Command{
		ID: link.PromptID(), Session: session, TraceParent: req.TraceParent,
		Data: &schemas.SubagentPrompt{Parent: link, Text: args.Prompt, SubagentSettings: c.Start.SubagentSettings},
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

// subagentResult is the result of a call that has begun a session.
func subagentResult(session, text string, r *schemas.SubagentResult) schemas.ToolResult {
	details := map[string]any{"sessionId": session}
	if r != nil {
		details["reason"], details["usage"] = r.Reason, r.Usage
	}
	result := schemas.TextResult(text)
	result.Details, _ = schemas.Marshal(details) // texts and numbers always encode
	return result
}

// awaits reports whether a result answers a call that waits for it. The caller holds the lock.
func (d *Driver) awaits(r *schemas.SubagentResult) bool {
	call := d.state.Call(r.Call)
	return d.state.Answers(r) && call != nil && call.End == nil && !d.state.Child(r.Call).Start.Background
}

// answerOf is a child's result as that of its call. The caller holds the lock.
func (d *Driver) answerOf(r *schemas.SubagentResult) *schemas.ToolResponse {
	took := d.o.Clock.Now().Sub(d.state.Child(r.Call).StartedAt)
	return &schemas.ToolResponse{
		Call: r.Call, IsError: r.IsError, DurationMs: max(took.Milliseconds(), 0),
		Result: subagentResult(r.Session, r.Text, r),
	}
}

// endSubagent takes in the result of a child whose call has been answered for it while the result waited.
func (d *Driver) endSubagent(ctx context.Context, a arrival) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, err := d.accept(ctx, schemas.Command{ID: a.cause, Session: d.session, Data: a.subagent})
	return err
}

// abortSubagent tells a child to stop.
func (d *Driver) abortSubagent(ctx context.Context, step loop.AbortSubagent) error {
	var err error
	if d.o.Outbox != nil { // or the log was taken out of its deployment
		err = d.store(ctx, schemas.Command{
			ID: step.Link.AbortID(), Session: step.Session, Data: &schemas.SubagentAbort{Parent: step.Link},
		})
	}
	if err != nil {
		return fmt.Errorf("session %s: abort its sub-agent %s: %w", d.session, step.Session, err)
	}
	d.View(func(s *loop.State) {
		if c := s.Child(step.Link.Call); c != nil && c.Abort == loop.AbortOwed { // it may have ended meanwhile
			_, err = d.append(ctx, step.Then, "")
		}
	})
	return err
}

// textNoOutbox is why the result of a sub-agent goes nowhere that has been taken out of its deployment.
const textNoOutbox = "this process reaches no other sessions"

// report tells the parent what has become of this session's run.
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

// store has a command stored in the inbox of another session, once everything that it goes back to is stored.
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
