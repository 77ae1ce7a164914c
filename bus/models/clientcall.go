package models

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/backlog"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/schemas/progress"
)

// clientCall is a model call on the client's side.
type clientCall struct {
	client         *Client
	nc             *nats.Conn
	idleTimeout    time.Duration
	token          string // last token of the subject of the answers
	backlog        *backlog.Queue
	reader         partReader
	meter          meter
	stall          progress.Stall
	frames         []byte   // received and not decoded yet, one per line
	remaining      [][]byte // parts of the request that are not sent yet: the server is not known
	control        string   // subject for messages to the call at its server; "" until the server is known
	terminated     bool     // the terminal event was received
	stopHeartbeats func()   // nil until the server is known
}

// close removes the call and cancels it at its server, unless it has ended there. If the server is not known yet, the
// client cancels the call when the first answer arrives.
func (c *clientCall) close() {
	if c.stopHeartbeats != nil {
		c.stopHeartbeats()
	}
	c.cancel()
	c.client.unregister(c)
}

// cancel cancels the call at its server, if the server is known and has not ended the call. It has no answer and is not
// retried: it is lost only with the connection, and then the server detects the loss of its caller, for which the
// caller also sends heartbeats.
func (c *clientCall) cancel() {
	if c.control != "" && !c.terminated {
		c.client.cancel(c.control, c.token)
	}
}

// next waits for the next event.
func (c *clientCall) next(ctx context.Context) (schemas.StreamEvent, error) {
	for {
		frame, err := c.frame(ctx)
		if err != nil {
			return schemas.StreamEvent{}, err
		}
		if err := schemas.CheckValues("a message of the model call", frame, maxFrameValues); err != nil {
			return schemas.StreamEvent{}, err
		}
		f, err := schemas.DecodeModelFrame(frame)
		if err != nil {
			return schemas.StreamEvent{}, &schemas.FailureError{
				Code: schemas.FailureServerError, Err: fmt.Errorf("message %d of the model call: %w", c.reader.last, err),
			}
		}
		if f.Call != "" {
			if err := c.sendRemaining(f.Call); err != nil {
				return schemas.StreamEvent{}, err
			}
		}
		if f.Event != nil {
			return c.event(f)
		}
	}
}

// frame waits for the next frame. It fails once ctx has ended, even if there is one: a server that sends without a
// pause must not keep a call beyond its context. The first frame of a message is an exception, because it may name the
// call.
func (c *clientCall) frame(ctx context.Context) (frame []byte, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for len(c.frames) == 0 {
		if len(c.reader.parts) == 0 {
			c.backlog.Release()
		}
		m, err := c.receive(ctx)
		if err != nil {
			return nil, err
		}
		if err := c.meter.message(m.Size()); err != nil {
			return nil, err
		}
		payload, whole, err := c.reader.read(m)
		if err != nil {
			return nil, err
		}
		if whole { // an empty payload is a heartbeat
			c.frames = payload
		}
	}
	frame, c.frames, _ = bytes.Cut(c.frames, []byte("\n"))
	return frame, nil
}

// receive waits for the next message. Like frame, it fails once ctx has ended.
func (c *clientCall) receive(ctx context.Context) (*nats.Msg, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	idle := time.NewTimer(c.idleTimeout)
	defer idle.Stop()
	for {
		if m := c.backlog.Take(); m != nil {
			if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
				return nil, errNoModels
			}
			return m, nil
		}
		if c.nc.IsClosed() {
			return nil, fmt.Errorf("%w: %w", errModelLost, nats.ErrConnectionClosed)
		}
		select {
		case <-c.backlog.More():
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-idle.C:
			return nil, fmt.Errorf("%w: the server of the model has sent nothing for %s", errModelLost, c.idleTimeout)
		}
	}
}

// sendRemaining sends the remaining parts of the request to the server that has accepted the call under this id, and
// then heartbeats until the call is closed.
func (c *clientCall) sendRemaining(call string) error {
	if err := schemas.CheckToken("model call", call); err != nil {
		return err
	}
	if c.control != "" {
		return nil // only the first frame names the call
	}
	c.control = c.client.conn.Subjects().ModelCall(call)
	for i, part := range c.remaining {
		if err := c.nc.PublishMsg(partMsg(c.control, "", uint64(i)+2, i < len(c.remaining)-1, part)); err != nil {
			return fmt.Errorf("%w: %w", errModelLost, err)
		}
	}
	c.remaining = nil
	c.stopHeartbeats = c.heartbeats()
	return nil
}

// event returns the event of a frame. It returns an error if the reply exceeds its bounds or makes no progress.
func (c *clientCall) event(f schemas.ModelFrame) (schemas.StreamEvent, error) {
	e := *f.Event
	e.Message = f.Message
	if e.Terminal() && e.Message == nil {
		return e, fmt.Errorf("message %d of the model call: %s without a message", c.reader.last, e.Type)
	}
	if c.terminated = e.Terminal(); !c.terminated {
		if err := c.advance(e); err != nil {
			return e, err
		}
	}
	return e, c.meter.add(e)
}

// notAborted returns the terminal event of a reply that its server has ended as aborted, although nobody has aborted it
// here: a failure, so that the caller retries and no log says what is not true. It keeps the partial reply.
func (c *clientCall) notAborted(e schemas.StreamEvent) schemas.StreamEvent {
	m := *e.Message
	m.StopReason, m.ErrorMessage = schemas.StopError, errServerAborted.Error()
	return schemas.StreamEvent{
		Type: schemas.StreamError, Reason: m.StopReason, FailureCode: schemas.FailureCodeOf(errServerAborted), Message: &m,
	}
}

// advance returns an error if the events of the reply have made no progress for too long, of which e is the last.
func (c *clientCall) advance(e schemas.StreamEvent) error {
	if progress.Made(e) {
		c.stall.End()
		return nil
	}
	c.stall.Begin()
	if limit := c.client.o.StallTimeout; c.stall.Left(limit) <= 0 {
		return schemas.NewFailure(schemas.FailureTimeout,
			fmt.Sprintf("the server of the model has sent nothing but events without progress for %s", limit))
	}
	return nil
}

// finalEvent returns the terminal event of a call that failed on this side: failed, or, if ctx has ended, the terminal
// event of the server, which has the partial reply and its usage.
func (c *clientCall) finalEvent(ctx context.Context, failed schemas.StreamEvent) schemas.StreamEvent {
	if ctx.Err() == nil || c.control == "" {
		return failed
	}
	c.cancel()
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelTimeout)
	defer cancel()
	for {
		e, err := c.next(wait)
		if err != nil {
			return failed
		}
		if e.Terminal() {
			return e
		}
	}
}
