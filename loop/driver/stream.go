package driver

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/agentevent"
	"github.com/loopbus/loopbus/schemas"
)

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
	failure schemas.FailureCode       // of the terminal event
	final   *schemas.AssistantMessage // the whole reply, once it is there
	idle    idleWatch

	payloads *payloads // nil: nobody is asked about what a vendor is sent

	silent bool // a summary: the log has it once it is whole, and nobody watches
}

// stream reads the model to its terminal event. It returns an error where the stream itself broke.
func (c *modelCall) stream(signal context.Context) error {
	signal, stop := c.idle.start(c.d, signal)
	defer stop()
	defer c.closeFeed()
	final, err := c.read(signal)
	if err != nil && c.idle.fired() {
		final, err = &schemas.AssistantMessage{API: c.req.Model.API, Provider: c.req.Model.Provider, Model: c.req.Model.ID},
			nil
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
	err = c.d.outside("model", func() error {
		for e, err := range c.d.o.Model.Stream(signal, c.req) {
			if err != nil {
				return err
			}
			c.idle.reset()
			if inner = c.payloads.record(e.Terminal()); inner != nil {
				return nil
			}
			if e.Terminal() {
				final, c.failure = e.Message, e.FailureCode.Known()
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

// event handles what comes before the end. Deltas before start are dropped: there is no message yet to update.
func (c *modelCall) event(e schemas.StreamEvent) error {
	if c.silent {
		return nil
	}
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
	return c.d.show(c.ctx, shown{is: true, event: agentevent.Event{
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
	c.id, c.seq, err = c.d.startReply(c.ctx, show)
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

// end puts the whole reply into the log. A stream without start is announced with it.
func (c *modelCall) end(final *schemas.AssistantMessage) error {
	final = schemas.ValidReply(final)
	end := &schemas.MessageEnd{DurationMs: c.d.o.Clock.Now().Sub(c.started).Milliseconds()}
	if c.idle.fired() {
		cut := *final
		cut.StopReason = schemas.StopError
		cut.ErrorMessage = fmt.Sprintf("model %s sent nothing for %s", c.req.Model, c.d.o.IdleTimeout)
		final, end.TerminationReason, c.failure = &cut, schemas.TimeoutIdle, schemas.FailureTimeout
	}
	if final.StopReason == schemas.StopError {
		end.FailureCode, end.Retryable = c.failure, c.retryable(final)
	}
	c.final = final
	if c.id == "" {
		if err := c.open(final); err != nil {
			return err
		}
	}
	c.closeFeed() // nothing follows the end of what it belongs to
	c.d.countForProfile(c.ctx, c.id, final)
	stored, err := c.d.askMessageEnd(c.ctx, c.id, final)
	if err != nil {
		return err
	}
	end.MessageID, end.Message.Message = c.id, stored
	return c.d.emit(c.ctx, end, "")
}

// retryable reports whether asking again may help after a failed reply: by its code, else by what [Options.Retryable]
// makes of a reply whose model gave none.
func (c *modelCall) retryable(reply *schemas.AssistantMessage) bool {
	if c.failure != "" {
		return c.failure.Retryable()
	}
	return c.d.o.Retryable != nil && c.d.o.Retryable(reply)
}

func (c *modelCall) closeFeed() {
	if c.d.o.Live != nil {
		c.feed.close(c.ctx, c.d.session, c.seq)
	}
}

// feed gives the deltas of one reply to those who watch, but not before its message_start is stored, so that no delta
// overtakes it. The model is never kept waiting for that: what it says meanwhile is buffered, and if the reply is
// complete before the log is, nobody needs its deltas any more.
type feed struct {
	d *Driver

	mu      sync.Mutex
	pending []schemas.Update
	waiting bool // somebody waits for the log
	open    bool // the message_start is stored
	closed  bool // the reply is complete
}

// put publishes one delta, or buffers it.
func (f *feed) put(ctx context.Context, u schemas.Update) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open {
		f.d.o.Live.Update(ctx, u)
		return
	}
	f.pending = append(f.pending, u)
	if !f.waiting {
		f.waiting = true
		f.d.start("deltas", func() { f.release(ctx) })
	}
}

// release publishes what is buffered once the log has what it belongs to. It ends with the flush, which ends with ctx.
func (f *feed) release(ctx context.Context) {
	err := f.d.o.Log.Flush(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil || f.closed {
		return // the driver will find out by itself
	}
	f.open = true
	for _, u := range f.pending {
		f.d.o.Live.Update(ctx, u)
	}
	f.pending = nil
}

// close ends the feed: no delta goes out after it returns.
func (f *feed) close(ctx context.Context, session string, event uint64) {
	f.mu.Lock()
	open := f.open
	f.open, f.closed, f.pending = false, true, nil
	f.mu.Unlock()
	if open {
		f.d.o.Live.Flush(ctx, session, event)
	}
}
