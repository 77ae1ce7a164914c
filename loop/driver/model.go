package driver

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// TextRequestAborted is the error text of a reply that was never asked for because the run is to end.
const TextRequestAborted = "Request was aborted"

// TextOverProfile is the error text of a reply that was never asked for because the budget of the session's profile is used up.
const TextOverProfile = "No model was called: the budget of the profile is used up"

// TextOverBudget is the error text of a reply that was never asked for because a budget is used up.
const TextOverBudget = "No model was called: the budget of the run or of the session is used up"

var errNoEnd = errors.New("model stream ended without a terminal event")

// callModel streams one reply into the log (behaviour A1.12, A1.13).
func (d *Driver) callModel(ctx context.Context, step loop.CallModel) error {
	signal := d.runSignal(ctx)
	if step.Aborted {
		reply := &schemas.AssistantMessage{
			StopReason: schemas.StopAborted, ErrorMessage: TextRequestAborted, Timestamp: d.o.Clock.Now().UnixMilli(),
		}
		return d.failWith(ctx, reply, schemas.MessageEnd{})
	}
	if step.Refused != "" {
		reply := &schemas.AssistantMessage{
			StopReason: schemas.StopError, ErrorMessage: TextOverBudget, Timestamp: d.o.Clock.Now().UnixMilli(),
		}
		return d.failWith(ctx, reply, schemas.MessageEnd{TerminationReason: step.Refused})
	}
	if step.Unready != "" {
		return d.fail(ctx, errors.New(step.Unready))
	}
	if refused, err := d.overProfile(ctx); refused || err != nil {
		return err
	}
	req, err := d.request(ctx, signal)
	if err != nil {
		return d.fail(ctx, err)
	}
	if err := d.ensureOurs(ctx); err != nil {
		return err
	}
	span := d.startModelSpan(ctx, req.Model)
	c := &modelCall{d: d, ctx: ctx, req: req, started: d.o.Clock.Now(), feed: feed{live: d.o.Live, log: d.o.Log}}
	err = c.stream(signal)
	span.End(err)
	switch {
	case ctx.Err() != nil:
		return ctx.Err() // the process goes down: whoever resumes calls the model again
	case err != nil:
		var lost *LostError
		if errors.As(err, &lost) || errors.Is(err, errFailed) {
			return err
		}
		return d.fail(ctx, err)
	}
	return nil
}

// request is what the model is asked: the run's settings and what the hooks make of the transcript.
func (d *Driver) request(ctx, signal context.Context) (req schemas.ModelRequest, err error) {
	d.View(func(s *loop.State) {
		req = schemas.ModelRequest{
			Model: s.Config.Model, SystemPrompt: s.Config.SystemPrompt, Messages: s.Transcript(), Tools: s.Config.Tools,
			ThinkingLevel: s.Config.ThinkingLevel, SessionID: d.session, APIKey: d.o.APIKey, Attempt: loop.Attempt(s),
		}
	})
	if req.ThinkingLevel == schemas.ThinkingOff {
		req.ThinkingLevel = ""
	}
	if d.o.SessionID != nil {
		req.SessionID = d.o.SessionID()
	}
	h := d.o.Hooks
	if h.TransformContext != nil {
		err = guard("transformContext", func() (err error) {
			req.Messages, err = h.TransformContext(signal, req.Messages)
			return err
		})
	}
	if err == nil {
		req.Messages, err = d.askContext(ctx, signal, req.Messages)
	}
	if err == nil && h.ConvertToLLM != nil {
		err = guard("convertToLlm", func() (err error) {
			req.Messages, err = h.ConvertToLLM(signal, req.Messages)
			return err
		})
	} else if err == nil {
		req.Messages = DefaultConvert(req.Messages)
	}
	if err == nil && h.GetAPIKey != nil {
		err = guard("getApiKey", func() error {
			key, err := h.GetAPIKey(signal, req.Model.Provider)
			if key != "" {
				req.APIKey = key
			}
			return err
		})
	}
	return req, err
}

// modelCall is one reply being streamed.
type modelCall struct {
	d       *Driver
	ctx     context.Context // of the driver; the run's signal is what the model sees
	req     schemas.ModelRequest
	started time.Time
	id      string // of the message, once it has been announced
	seq     uint64 // of its message_start
	feed    feed
	partial *schemas.AssistantMessage
	idle    idleWatch
}

// stream reads the model to its terminal event. It returns an error where the stream itself broke.
func (c *modelCall) stream(signal context.Context) error {
	signal, stop := c.idle.start(c.d, signal)
	defer stop()
	defer c.closeFeed()
	final, err := c.read(signal)
	if err != nil && c.idle.fired() {
		final, err = &schemas.AssistantMessage{API: c.req.Model.API, Provider: c.req.Model.Provider, Model: c.req.Model.ID}, nil
	}
	if err != nil || c.ctx.Err() != nil {
		return err
	}
	if final == nil {
		return errNoEnd
	}
	return c.end(final)
}

func (c *modelCall) read(signal context.Context) (final *schemas.AssistantMessage, err error) {
	var inner error // of our own work, which is not the model's panic or error
	err = guard("model", func() error {
		for e, err := range c.d.o.Model.Stream(signal, c.req) {
			if err != nil {
				return err
			}
			c.idle.reset()
			if e.Terminal() {
				final = e.Message
				return nil
			}
			if inner = c.event(e); inner != nil {
				return nil
			}
		}
		return nil
	})
	if err == nil {
		err = inner
	}
	return final, err
}

// event handles what comes before the end. Deltas before start are dropped (finding 005).
func (c *modelCall) event(e schemas.StreamEvent) error {
	if e.Type == schemas.StreamStart {
		if c.id != "" {
			return nil
		}
		return c.announce(e.Message)
	}
	if c.id == "" {
		return nil
	}
	c.update(e)
	if c.d.o.Listen == nil {
		return nil
	}
	return c.d.show(c.ctx, shown{is: true, event: AgentEvent{
		Type: schemas.EventMessageUpdate, Message: c.partial, AssistantMessageEvent: &e,
	}})
}

func (c *modelCall) announce(partial *schemas.AssistantMessage) error {
	if partial == nil {
		m := c.req.Model
		partial = &schemas.AssistantMessage{API: m.API, Provider: m.Provider, Model: m.ID, StopReason: schemas.StopStop}
	}
	c.partial = partial
	return c.open(partial)
}

func (c *modelCall) open(show *schemas.AssistantMessage) (err error) {
	c.id, c.seq, err = c.d.startReply(c.ctx, show, show)
	return err
}

// update gives a delta to those who watch.
func (c *modelCall) update(e schemas.StreamEvent) {
	if c.d.o.Live == nil {
		return
	}
	u := schemas.Update{Session: c.d.session, Event: c.seq, Time: c.d.o.Clock.Now(), Source: c.d.o.Source}
	u.Data = &schemas.MessageUpdate{MessageID: c.id, AssistantMessageEvents: []schemas.StreamEvent{e}}
	c.d.View(func(s *loop.State) {
		if s.Run != nil && s.Run.Turn != nil {
			u.RunID, u.TurnID = s.Run.ID, s.Run.Turn.ID
		}
	})
	c.feed.put(c.ctx, u)
}

// end puts the whole reply into the log. A stream without start is announced with it (finding 002).
func (c *modelCall) end(final *schemas.AssistantMessage) error {
	final = schemas.ValidReply(final)
	end := &schemas.MessageEnd{DurationMs: c.d.o.Clock.Now().Sub(c.started).Milliseconds()}
	if c.idle.fired() {
		cut := *final
		cut.StopReason = schemas.StopError
		cut.ErrorMessage = fmt.Sprintf("model %s sent nothing for %s", c.req.Model, c.d.o.IdleTimeout)
		final, end.TerminationReason = &cut, schemas.TimeoutIdle
	}
	end.Retryable = final.StopReason == schemas.StopError && (c.idle.fired() || c.d.o.Retryable != nil && c.d.o.Retryable(final))
	if c.id == "" {
		if err := c.open(final); err != nil {
			return err
		}
	}
	c.closeFeed() // nothing follows the end of what it belongs to
	c.d.countForProfile(c.ctx, c.id, final.Usage)
	stored, err := c.d.askMessageEnd(c.ctx, c.id, final)
	if err != nil {
		return err
	}
	end.MessageID, end.Message.Message = c.id, stored
	return c.d.emit(c.ctx, end, "")
}

func (c *modelCall) closeFeed() {
	if c.d.o.Live != nil {
		c.feed.close(c.ctx, c.d.session, c.seq)
	}
}
