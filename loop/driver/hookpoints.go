package driver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/internal/panics"
	"github.com/loopbus/loopbus/schemas"
)

// screen expands the next waiting input and asks the services of the hook input about it, before it can enter a run.
// The others have their turn after what has arrived in the meantime.
func (d *Driver) screen(ctx context.Context) error {
	if d.o.InputHooks == nil {
		return nil
	}
	var waiting []loop.Input
	var seq uint64
	var set loop.Settings
	d.View(func(s *loop.State) {
		seq, waiting = s.Seq, toScreen(s)
		if len(waiting) > 0 {
			set = s.Settings.Clone()
		}
	})
	var q *inquiry
	if len(waiting) > 0 {
		q = d.inquiry(schemas.HookInput, d.inputHooks(ctx, d.session, set))
	}
	next := slices.IndexFunc(waiting, func(in loop.Input) bool { return q != nil || in.Expand })
	if next < 0 {
		d.screened = seq
		return nil
	}
	return d.screenOne(ctx, q, waiting[next], set)
}

// toScreen returns the inputs to screen now. A run that is aborted takes none, and must not wait for services: it ends
// first.
func toScreen(s *loop.State) []loop.Input {
	if s.Run != nil && s.Run.Abort != nil {
		return nil
	}
	return s.Unscreened()
}

// inputHooks returns the services to ask outside a run, such as about an input, for a session with these settings. What
// no service answers for passes unchanged.
func (d *Driver) inputHooks(ctx context.Context, session string, set loop.Settings) (refs []schemas.HookRef) {
	if d.o.InputHooks == nil {
		return nil
	}
	d.logPanic(panics.Guard("input hooks", func() error {
		refs = d.o.InputHooks(ctx, session, set)
		return nil
	}))
	return refs
}

// screenOne screens an input and appends the decision; without services it only expands the input. An abort of the run
// under way ends the inquiry: nothing is decided, and the services are asked again after the run.
func (d *Driver) screenOne(ctx context.Context, q *inquiry, in loop.Input, set loop.Settings) (err error) {
	decision := &schemas.HookDecision{Hook: schemas.HookInput, CommandID: in.CommandID}
	if in.Expand && d.o.Expand != nil {
		if in.Messages, err = d.expand(ctx, set, in.Messages, decision); err != nil {
			return fmt.Errorf("session %s: expand command %s: %w", d.session, in.CommandID, err)
		}
	}
	if q == nil {
		return d.emit(ctx, decision, in.CommandID)
	}
	if err := d.room(); err != nil { // services may take long
		return err
	}
	running, signal := false, ctx
	d.View(func(s *loop.State) { running = s.Run != nil })
	if running {
		signal = d.runSignal(ctx)
	}
	req := &schemas.HookRequest{CommandID: in.CommandID, Messages: in.Messages}
	err = q.ask(ctx, signal, req, func(a schemas.HookAnswer) (bool, error) {
		if a.Handled {
			decision.Handled = true
			return true, errDecided
		}
		if len(a.Messages) == 0 {
			return false, nil
		}
		if err := d.boundQueued(in, a.Messages); err != nil {
			return false, err
		}
		decision.Messages, req.Messages = a.Messages, a.Messages
		return true, nil
	})
	if err != nil || len(q.failures) > 0 && signal.Err() != nil {
		return err
	}
	return q.conclude(ctx, decision)
}

// boundQueued returns an error if the queues may not have the messages in place of those of an input that waits.
func (d *Driver) boundQueued(in loop.Input, messages schemas.Messages) (err error) {
	d.View(func(s *loop.State) {
		size := messages.Size()
		if n := s.QueuedBytes() - in.Messages.Size() + size; n > max(loop.MaxQueuedBytes, size) {
			err = fmt.Errorf("with its answer the inputs that wait would have %d bytes, and may have %d", n,
				loop.MaxQueuedBytes)
		}
	})
	return err
}

// expand returns the messages of an input with its text expanded, and records the change in the decision.
func (d *Driver) expand(ctx context.Context, set loop.Settings, in schemas.Messages, decision *schemas.HookDecision) (
	schemas.Messages, error,
) {
	if len(in) == 0 {
		return in, nil
	}
	said, ok := in[0].(*schemas.UserMessage)
	if !ok || len(said.Content) == 0 {
		return in, nil
	}
	text, ok := said.Content[0].(schemas.Text)
	if !ok {
		return in, nil
	}
	expanded, sources, err := d.o.Expand(ctx, d.session, set, text.Text)
	if err != nil || len(sources) == 0 {
		return in, err
	}
	became := *said
	became.Content = slices.Clone(said.Content)
	text.Text = expanded
	became.Content[0] = text
	decision.Messages = append(schemas.Messages{&became}, in[1:]...)
	decision.Sources = sources
	return decision.Messages, nil
}

// unscreened reports whether an input waits to be screened. The caller holds the lock.
func (d *Driver) unscreened() bool {
	return d.o.InputHooks != nil && d.screened != d.state.Seq && len(toScreen(d.state)) > 0
}

// askBegin asks the services of before_agent_start about the run that its first input is to start. If it has asked, the
// decision is in the log and the step has to be chosen again.
func (d *Driver) askBegin(ctx context.Context, in loop.Input, config schemas.RunConfig) (asked bool, err error) {
	q := d.inquiry(schemas.HookBeforeAgentStart, config.Hooks)
	if q == nil || in.Begin != nil {
		return false, nil
	}
	decision := &schemas.HookDecision{CommandID: in.CommandID}
	req := &schemas.HookRequest{CommandID: in.CommandID, Messages: in.Messages, SystemPrompt: config.SystemPrompt}
	return true, q.decide(ctx, ctx, req, decision, func(a schemas.HookAnswer) (decided bool, err error) {
		if len(a.Messages) > 0 {
			decision.Messages = append(decision.Messages, a.Messages...)
			req.Messages = append(req.Messages[:len(req.Messages):len(req.Messages)], a.Messages...)
			decided = true
		}
		if a.SystemPrompt != nil {
			decision.SystemPrompt, req.SystemPrompt = a.SystemPrompt, *a.SystemPrompt
			decided = true
		}
		return decided, nil
	})
}

// askContext asks the hook context which messages the model gets in place of the transcript. They are not stored,
// because the log would grow with the square of the conversation.
func (d *Driver) askContext(ctx, signal context.Context, messages schemas.Messages) (schemas.Messages, error) {
	q := d.inquiryOfRun(schemas.HookContext)
	if q == nil {
		return messages, nil
	}
	decision := new(schemas.HookDecision)
	req := &schemas.HookRequest{Messages: messages}
	err := q.decide(ctx, signal, req, decision, func(a schemas.HookAnswer) (bool, error) {
		if a.Messages == nil {
			return false, nil
		}
		req.Messages, decision.Changed = a.Messages, []string{"messages"}
		return true, nil
	})
	return req.Messages, err
}

// askMessageEnd asks the hook message_end about a message and returns the message to store in its place.
func (d *Driver) askMessageEnd(ctx context.Context, id string, m schemas.Message) (schemas.Message, error) {
	q := d.inquiryOfRun(schemas.HookMessageEnd)
	if q == nil {
		return m, nil
	}
	decision := &schemas.HookDecision{MessageID: id}
	req := &schemas.HookRequest{Message: &schemas.AnyMessage{Message: m}}
	err := q.decide(ctx, d.runSignal(ctx), req, decision, func(a schemas.HookAnswer) (bool, error) {
		if a.Message == nil {
			return false, nil
		}
		replaced, err := replacement(m, a.Message.Message)
		if err != nil {
			return false, err
		}
		m = replaced
		req.Message, decision.Changed = &schemas.AnyMessage{Message: m}, []string{"message"}
		return true, nil
	})
	return m, err
}

// replacement returns n as a replacement of m: it keeps m's role, the call of a result, and the model, usage and time
// of a reply.
func replacement(m, n schemas.Message) (schemas.Message, error) {
	if n.MessageRole() != m.MessageRole() {
		return nil, fmt.Errorf("it answered a message of role %s in place of one of role %s", n.MessageRole(),
			m.MessageRole())
	}
	switch n := n.(type) {
	case *schemas.AssistantMessage:
		was, made := m.(*schemas.AssistantMessage), *n
		made.API, made.Provider, made.Model, made.Usage = was.API, was.Provider, was.Model, was.Usage
		made.Timestamp = was.Timestamp // part of the id that its usage is counted under
		return schemas.ValidReply(&made), nil
	case *schemas.ToolResultMessage:
		was, made := m.(*schemas.ToolResultMessage), *n
		made.ToolCallID, made.ToolName = was.ToolCallID, was.ToolName
		return &made, nil
	}
	return n, nil
}

// askBefore asks whether a call is executed, and with which arguments. A service that does not answer blocks the call.
// An error means that this process must not decide any more.
func (d *Driver) askBefore(ctx context.Context, q *inquiry, call loop.Call, args json.RawMessage,

	decision *schemas.HookDecision) error {
	req := callRequest(call, args)
	err := q.ask(ctx, d.runSignal(ctx), req, func(a schemas.HookAnswer) (decided bool, err error) {
		if a.Block {
			decision.Block, decision.Reason = true, a.Reason
			if a.Reason == "" {
				decision.Reason = textBlocked
			}
			return true, errDecided
		}
		if a.Args != nil && !bytes.Equal(a.Args, req.Args) {
			decision.Args, req.Args, decided = a.Args, a.Args, true
		}
		if a.Ask && !decision.Ask {
			decision.Ask, decision.Reason, decision.TimeoutMs, decided = true, a.Reason, a.TimeoutMs, true
		}
		return decided, nil
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, schemas.ErrLater):
		return err
	case err != nil:
		decision.Block, decision.Reason = true, strings.ToValidUTF8(err.Error(), "\uFFFD")
	}
	q.record(decision)
	return nil
}

func callRequest(call loop.Call, args json.RawMessage) *schemas.HookRequest {
	return &schemas.HookRequest{Call: call.Key, ToolCallID: call.ToolCall.ID, ToolName: call.ToolCall.Name, Args: args}
}
