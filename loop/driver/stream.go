package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/agentevent"
	"github.com/loopbus/loopbus/loop/internal/jsonroom"
	"github.com/loopbus/loopbus/schemas"
)

// modelCall is a model call whose reply is being streamed.
type modelCall struct {
	d       *Driver
	ctx     context.Context // of the driver; the model gets the run's abort signal
	req     schemas.ModelRequest
	started time.Time
	id      string // of the reply, once its message_start is appended
	seq     uint64 // of its message_start
	feed    feed
	partial *schemas.AssistantMessage
	failure schemas.FailureCode       // of the terminal event
	final   *schemas.AssistantMessage // the complete reply, nil before
	idle    idleWatch

	payloads *payloads // nil: no service is asked about the vendor's payload

	silent bool // for a summary, which the log gets when it is complete and of which no delta is published
}

// stream reads the model to its terminal event. It returns an error if the stream itself failed.
func (c *modelCall) stream(signal context.Context) error {
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

// read returns the complete reply. The time in which the request waits for room is not idle.
func (c *modelCall) read(signal context.Context) (final *schemas.AssistantMessage, err error) {
	answered := c.enter(signal)
	defer answered()
	signal, stop := c.idle.start(c.d, signal)
	defer stop()
	var inner error // of the driver, to tell apart from a panic or error of the model
	err = c.d.outside("model", func() error {
		for e, err := range c.d.o.Model.Stream(signal, c.req) {
			if err != nil {
				return err
			}
			answered()
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
	if later := c.payloads.unsent(); later != nil {
		return nil, later
	}
	if err == nil {
		err = inner
	}
	return final, err
}

// enter waits for room in memory for the request, which the caller leaves once the model answers. It does not wait for
// an aborted run: its model does not make a request.
func (c *modelCall) enter(signal context.Context) (leave func()) {
	size := requestSize(c.req)
	if jsonroom.Requests.Waits(size) {
		c.d.send()
	}
	leave, err := jsonroom.Requests.Wait(signal, size)
	if err != nil {
		return func() {}
	}
	return leave
}

// requestSize estimates how many bytes of JSON a request has.
func requestSize(req schemas.ModelRequest) int {
	n := req.Messages.JSONSize() + schemas.QuotedSize(req.SystemPrompt)
	for _, t := range req.Tools {
		n += schemas.QuotedSize(t.Description) + len(t.Parameters)
	}
	return n
}

// event handles an event before the terminal one. Deltas before start are dropped: there is no message to update yet.
func (c *modelCall) event(e schemas.StreamEvent) error {
	if c.silent {
		return nil
	}
	if e.Type == schemas.StreamStart {
		if c.id != "" {
			return nil
		}
		m := c.req.Model
		c.partial = cmp.Or(e.Message, &schemas.AssistantMessage{
			API: m.API, Provider: m.Provider, Model: m.ID, StopReason: schemas.StopStop,
		})
		return c.announce(c.partial)
	}
	if c.id == "" {
		return nil
	}
	c.update(e)
	if c.d.o.Listen == nil {
		return nil
	}
	return c.d.show(c.ctx, shown{visible: true, event: agentevent.Event{
		Type: schemas.EventMessageUpdate, Message: c.partial, AssistantMessageEvent: &e,
	}})
}

// announce puts the message_start of the reply into the log, and shows reply with it.
func (c *modelCall) announce(reply *schemas.AssistantMessage) (err error) {
	c.id, c.seq, err = c.d.startReply(c.ctx, reply)
	return err
}

// update publishes a delta.
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

// end puts the complete reply into the log. The reply of a stream without start gets its message_start here.
func (c *modelCall) end(final *schemas.AssistantMessage) error {
	final = schemas.ValidReply(final)
	end := &schemas.MessageEnd{DurationMs: elapsed(c.started, c.d.o.Clock.Now())}
	if c.idle.fired() {
		cut := *final
		cut.StopReason = schemas.StopError
		cut.ErrorMessage = fmt.Sprintf("model %s sent nothing for %s", c.req.Model, c.d.o.IdleTimeout)
		final, end.TerminationReason, c.failure = &cut, schemas.TimeoutIdle, schemas.FailureTimeout
	}
	if final.StopReason == schemas.StopError {
		end.FailureCode, end.Retryable = c.failure, c.d.retryable(c.failure, final)
	}
	c.final = final
	if c.id == "" {
		if err := c.announce(final); err != nil {
			return err
		}
	}
	c.closeFeed() // no delta follows the message_end
	c.d.countForProfile(c.ctx, c.id, final)
	asked, err := c.d.waitToAsk(c.ctx, c.d.runSignal(c.ctx), final)
	if cut, code := dropped(final, err); cut != nil {
		final, c.final = cut, cut
		end.FailureCode, end.Retryable = code, code.Retryable()
	} else if err != nil {
		return err
	}
	stored, err := c.d.askMessageEnd(c.ctx, c.id, final)
	asked()
	if err != nil {
		return err
	}
	end.MessageID, end.Message.Message = c.id, stored
	return c.store(end)
}

// store puts the message_end of the reply into the log and shows it. What the reply says is dropped if the run is
// aborted while the reply waits for room, as an abort does not wait, and if there is no room to wait.
func (c *modelCall) store(end *schemas.MessageEnd) (err error) {
	var s shown
	put := func() error {
		s, err = c.d.put(c.ctx, end, "")
		return err
	}
	err = c.d.storeReply(c.ctx, c.d.runSignal(c.ctx), end.Message.Message, put)
	if cut, code := dropped(c.final, err); cut != nil {
		c.final = cut
		end.Message.Message, end.FailureCode, end.Retryable = cut, code, code.Retryable()
		err = put()
	}
	if err != nil {
		return err
	}
	return c.d.show(c.ctx, s)
}

// errDropped is why a large reply is not stored.
var errDropped = errors.New("the run was aborted before the reply was stored")

// dropped returns what is stored of a reply that storeReply has dropped, nil if err says that it has not.
func dropped(reply *schemas.AssistantMessage, err error) (cut *schemas.AssistantMessage, code schemas.FailureCode) {
	stop := schemas.StopAborted
	switch {
	case errors.Is(err, jsonroom.ErrFull):
		stop, code, err = schemas.StopError, schemas.FailureOverloaded, fmt.Errorf("the reply was not stored: %w", err)
	case !errors.Is(err, errDropped):
		return nil, ""
	}
	copied := *reply
	copied.Content, copied.StopReason, copied.ErrorMessage = nil, stop, err.Error()
	return &copied, code
}

// waitToAsk waits for the room in memory for a reply about which services of message_end are asked, if there are any:
// they may take long, and the reply does not count as memory of the session before it is stored. The errors are those
// of [Driver.waitIn].
func (d *Driver) waitToAsk(ctx, signal context.Context, reply schemas.Message) (release func(), err error) {
	if d.inquiryOfRun(schemas.HookMessageEnd) == nil {
		return func() {}, nil
	}
	return d.waitIn(ctx, signal, jsonroom.Asked, schemas.Messages{reply}.JSONSize())
}

// waitIn waits for room for a reply or a result. release does nothing after an error, which is errDropped if signal
// ends, or [jsonroom.ErrFull].
func (d *Driver) waitIn(ctx, signal context.Context, room *jsonroom.Room, size int) (release func(), err error) {
	if !room.Waits(size) {
		return func() {}, nil
	}
	d.send()
	release, err = room.Wait(signal, size)
	switch {
	case errors.Is(err, jsonroom.ErrFull):
		return func() {}, err
	case err != nil:
		return func() {}, cmp.Or(ctx.Err(), errDropped)
	}
	return release, nil
}

// storeReply calls put, which appends a reply. If the reply is large it first waits for the room in memory that storing
// takes, and returns once the reply is stored. The error is errDropped if signal ends while it waits, or ErrFull.
func (d *Driver) storeReply(ctx, signal context.Context, reply schemas.Message, put func() error) error {
	size := schemas.Messages{reply}.JSONSize()
	if !jsonroom.Replies.Waits(size) {
		return put()
	}
	release, err := d.waitIn(ctx, signal, jsonroom.Replies, size)
	if err != nil {
		return err
	}
	defer release()
	if err := put(); err != nil {
		return err
	}
	return d.Flush(ctx)
}

// retryable reports whether a retry may help after a failed reply: by its code, or by [Options].Retryable if it has
// none.
func (d *Driver) retryable(code schemas.FailureCode, reply *schemas.AssistantMessage) bool {
	if code != "" {
		return code.Retryable()
	}
	return d.o.Retryable != nil && d.o.Retryable(reply)
}

func (c *modelCall) closeFeed() {
	if c.d.o.Live != nil {
		c.feed.close(c.ctx, c.seq)
	}
}

// feed publishes the deltas of one reply, but none before its message_start is stored, so that no delta overtakes it.
// The model never waits for that: deltas are buffered in the meantime, and dropped if the reply is complete first.
type feed struct {
	d *Driver

	mu      sync.Mutex
	pending []schemas.Update // deltas that a goroutine publishes once the message_start is stored
	open    bool             // the message_start is stored
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
	if len(f.pending) == 1 {
		f.d.start("deltas", func() { f.release(ctx) })
	}
}

// release publishes the buffered deltas once the message_start is stored. It ends with the flush, which ends with ctx.
func (f *feed) release(ctx context.Context) {
	err := f.d.o.Log.Flush(ctx)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil || len(f.pending) == 0 {
		return // the goroutine that drives gets the error as well; or the feed was closed
	}
	f.open = true
	for _, u := range f.pending {
		f.d.o.Live.Update(ctx, u)
	}
	f.pending = nil
}

// close ends the feed: no delta is published after it returns.
func (f *feed) close(ctx context.Context, event uint64) {
	f.mu.Lock()
	open := f.open
	f.open, f.pending = false, nil
	f.mu.Unlock()
	if open {
		f.d.o.Live.Flush(ctx, f.d.session, event)
	}
}
