package driver

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/agentevent"
	"github.com/loopbus/loopbus/loop/internal/panics"
	"github.com/loopbus/loopbus/schemas"
)

// shown is an event to show to the listener. It is visible if the listener gets events of its type, and appended if it
// is in the log.
type shown struct {
	event    agentevent.Event
	visible  bool
	appended bool
}

// emit appends an event and shows it to the listener.
func (d *Driver) emit(ctx context.Context, data schemas.EventData, cause string) error {
	s, err := d.put(ctx, data, cause)
	if err != nil {
		return err
	}
	return d.show(ctx, s)
}

// put is [Driver.append] for a caller that does not hold the lock.
func (d *Driver) put(ctx context.Context, data schemas.EventData, cause string) (shown, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.append(ctx, data, cause)
}

// append stamps the event, gives it to the log and applies it to the state. The caller holds the lock since it chose
// the event.
func (d *Driver) append(ctx context.Context, data schemas.EventData, cause string) (shown, error) {
	e := d.state.Envelope(data)
	now := d.o.Clock.Now()
	e.Time, e.Source, e.CausationID = stamp(now), d.o.Source, cause
	if e.CausationID == "" {
		e.CausationID = e.CorrelationID
	}
	switch end := data.(type) {
	case *schemas.AgentEnd:
		end.DurationMs = elapsed(d.state.Run.StartedAt, e.Time)
	case *schemas.CommandAccepted:
		e.TraceParent = d.accepting
	}
	d.turnEvent(ctx, data)
	if e.TraceParent == "" {
		e.TraceParent = d.traceParent()
	}
	s := shown{event: agentevent.Event{Type: data.EventType()}}
	if d.o.Listen != nil {
		s.event, s.visible = agentevent.Expand(d.state, data)
	}
	d.ownership.observe(now)
	if err := d.o.Log.Append(ctx, e); err != nil {
		return s, d.logError(ctx, e.Seq, err)
	}
	if err := d.state.Apply(e); err != nil {
		return s, &LostError{Session: e.Session, Seq: e.Seq, Err: err}
	}
	if sentAtOnce(data) {
		d.o.Log.Send()
	}
	s.appended = true
	if end, over := data.(*schemas.AgentEnd); over {
		d.endRun(end)
	}
	if d.o.OnEvent != nil {
		d.logPanic(panics.Guard("listener of all events", func() error { d.o.OnEvent(e, d.state); return nil }))
	}
	return s, nil
}

// Flush returns nil once everything that the driver has appended is stored.
func (d *Driver) Flush(ctx context.Context) error {
	err := d.o.Log.Flush(ctx)
	if err == nil {
		return nil
	}
	var seq uint64
	d.View(func(s *loop.State) { seq = s.Seq })
	return d.logError(ctx, seq, err)
}

// logError classifies an error of the log: if ctx has ended, only this delivery fails; otherwise the session is lost.
func (d *Driver) logError(ctx context.Context, seq uint64, err error) error {
	if ctx.Err() != nil && !errors.Is(err, ErrConflict) {
		return err
	}
	return &LostError{Session: d.session, Seq: seq, Err: err}
}

// show calls the listener and waits for it. An error of it fails the run at this event, as in pi.
func (d *Driver) show(ctx context.Context, s shown) error {
	if s.event.Type == schemas.EventAgentEnd {
		defer d.endSignal()
	}
	if !s.visible || d.o.Listen == nil {
		return nil
	}
	signal := d.runSignal(ctx)
	err := d.outside("listener", func() error { return d.o.Listen(signal, s.event) })
	switch {
	case err == nil:
		return nil
	case d.o.FailHard:
		return err
	case d.failing || d.hasFailed() || s.event.Type == schemas.EventAgentEnd:
		d.o.Logger.Warn("listener failed at the end of a run", "session", d.session, "err", err)
		return nil // the run ends anyway
	}
	return d.fail(ctx, err)
}

// hasFailed reports whether the run has a failure message, so that it ends.
func (d *Driver) hasFailed() (failed bool) {
	d.View(func(s *loop.State) { failed = s.Run != nil && s.Run.Failure != "" })
	return failed
}

// errFailed makes [Driver.steps] choose again after the run was ended with a failure message.
var errFailed = errors.New("run failed")

// fail ends the run with a failure message in place of a reply: one empty text with the error. The following steps then
// end the turn and the run. It never returns nil: errFailed means that the failure message is in the log.
func (d *Driver) fail(ctx context.Context, cause error) error {
	var lost *LostError
	if d.o.FailHard || errors.As(cause, &lost) || errors.Is(cause, errFailed) || ctx.Err() != nil {
		return cause
	}
	d.logPanic(cause)
	signal := d.runSignal(ctx)
	reply := &schemas.AssistantMessage{
		Content: schemas.Contents{schemas.Text{}}, StopReason: schemas.StopError,
		ErrorMessage: strings.ToValidUTF8(cause.Error(), "\uFFFD"),
	}
	if signal.Err() != nil {
		reply.StopReason = schemas.StopAborted
	}
	d.failing = true
	defer func() { d.failing = false }()
	if err := d.failWith(ctx, reply, schemas.MessageEnd{Failure: true}); err != nil {
		return err
	}
	return errFailed
}

func (d *Driver) logPanic(cause error) { panics.Log(d.o.Logger, d.session, cause) }

// failWith puts a reply that no model made into the transcript. It first closes a reply that was being streamed.
func (d *Driver) failWith(ctx context.Context, reply *schemas.AssistantMessage, end schemas.MessageEnd) error {
	d.mu.Lock()
	run, model := d.state.Run, d.state.Config.Model
	if run == nil {
		d.mu.Unlock()
		return nil
	}
	streaming, between, turns := "", run.Turn == nil, run.Turns
	if !between {
		streaming = run.Turn.Streaming
	}
	d.mu.Unlock()
	reply.API, reply.Provider, reply.Model = model.API, model.Provider, model.ID
	reply.Timestamp = d.o.Clock.Now().UnixMilli()
	if between { // the log has no reply outside a turn; pi's listeners see no turn begin
		if err := d.Append(ctx, &schemas.TurnStart{TurnIndex: turns}, ""); err != nil {
			return err
		}
	}
	if streaming != "" {
		if err := d.closeStreaming(ctx, streaming, reply.ErrorMessage); err != nil {
			return err
		}
	}
	id, _, err := d.startReply(ctx, reply)
	if err != nil {
		return err
	}
	end.MessageID, end.Message.Message = id, reply
	return d.emit(ctx, &end, "")
}

// closeStreaming closes a reply that will never be complete, with why as its error. It does not enter the transcript.
func (d *Driver) closeStreaming(ctx context.Context, id, why string) error {
	partial := &schemas.AssistantMessage{StopReason: schemas.StopAborted, ErrorMessage: why}
	return d.emit(ctx, &schemas.MessageEnd{
		MessageID: id, Message: schemas.AnyMessage{Message: partial}, Interrupted: true,
	}, "")
}

// startReply emits the message_start of a reply and returns the message's id and the event's sequence. The listener is
// shown the reply as given.
func (d *Driver) startReply(ctx context.Context, reply *schemas.AssistantMessage) (id string, seq uint64, err error) {
	var s shown
	d.View(func(state *loop.State) {
		id = state.MessageID()
		s, err = d.append(ctx, &schemas.MessageStart{
			MessageID: id, Role: schemas.RoleAssistant, API: reply.API, Provider: reply.Provider, Model: reply.Model,
		}, "")
		seq = state.Seq
	})
	if err != nil {
		return "", 0, err
	}
	s.event.Message = reply
	return id, seq, d.show(ctx, s)
}

// sentAtOnce reports whether an event is sent although more will follow: it shows that a run or a reply has begun.
func sentAtOnce(data schemas.EventData) bool {
	switch e := data.(type) {
	case *schemas.AgentStart:
		return true
	case *schemas.MessageStart:
		return e.Role == schemas.RoleAssistant
	}
	return false
}

// stamp returns the time of an event: whole milliseconds, so that most events of a commit share it.
func stamp(now time.Time) time.Time {
	return now.Add(-time.Duration(now.Nanosecond() % int(time.Millisecond))) // Truncate strips the monotonic clock
}

// endMessage asks the hook message_end about a message that no model streams, and appends its message_end.
func (d *Driver) endMessage(ctx context.Context, end *schemas.MessageEnd, cause string) error {
	if d.runSignal(ctx).Err() == nil { // of an aborted run services are not waited for
		if err := d.room(); err != nil {
			return err
		}
	}
	m, err := d.askMessageEnd(ctx, end.MessageID, end.Message.Message)
	if err != nil {
		return err
	}
	end.Message.Message = m
	return d.emit(ctx, end, cause)
}
