package models

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/schemas"
)

// ClientOptions configures [NewClient].
type ClientOptions struct {
	// IdleTimeout is how long the server of a call may send nothing before it counts as lost; 0 is five seconds.
	// Servers send a heartbeat every second.
	IdleTimeout time.Duration
	// MaxBytes is the size of the biggest request, and of the biggest event of an answer; 0 is 64 MiB.
	MaxBytes int
	Bounds   Bounds // of a reply
}

// Client calls the models that servers offer ([Server]). It needs no keys, and sends none. It may be used
// concurrently.
type Client struct {
	conn *bus.Conn
	o    ClientOptions

	mu    sync.Mutex
	inbox string                // all answers come below it; "" before the first call
	calls map[string]*askedCall // under way, by the last token of the subject of their answers
}

// NewClient returns a client on c, which stays the caller's and has to outlive it.
func NewClient(c *bus.Conn, o ClientOptions) *Client {
	if o.IdleTimeout == 0 {
		o.IdleTimeout = idleTimeout
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = maxModelBytes
	}
	o.Bounds = o.Bounds.orDefaults()
	return &Client{conn: c, o: o, calls: map[string]*askedCall{}}
}

// Stream asks for the model that the id of req.Model names ([Provider]). Whatever goes wrong is an error event;
// the iterator yields no error. What is lost on the way (a message, the server) is an error after which asking
// again may help. When ctx ends the call is cancelled at once, and the stream ends with the reply as far as it came.
func (c *Client) Stream(ctx context.Context, req schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	return func(yield func(schemas.StreamEvent, error) bool) {
		call, err := c.begin(ctx, req)
		if err != nil {
			yield(failedReply(ctx, req.Model, err), nil)
			return
		}
		defer call.end()
		for {
			e, err := call.next(ctx)
			if err != nil {
				e = call.last(ctx, failedReply(ctx, req.Model, err))
			}
			if !yield(e, nil) || e.Terminal() {
				return
			}
		}
	}
}

// begin sends the request, or as much of it as one message carries.
func (c *Client) begin(ctx context.Context, req schemas.ModelRequest) (*askedCall, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	req.Model = schemas.ModelRef{ID: req.Model.ID} // what it means is known where it is served
	data, err := schemas.Marshal(req)
	if err != nil {
		return nil, fmt.Errorf("encode the request of model %s: %w", req.Model, err)
	}
	if len(data) > c.o.MaxBytes {
		return nil, &schemas.FailureError{Code: schemas.FailureTooLarge, Err: fmt.Errorf(
			"the request has %d bytes, and at most %d go over the bus", len(data), c.o.MaxBytes)}
	}
	all := parts(c.conn.NATS(), data)
	call := &askedCall{client: c, conn: c.conn, idleTimeout: c.o.IdleTimeout, rest: all[1:],
		reader: partReader{limit: c.o.MaxBytes}, meter: meter{bounds: c.o.Bounds},
		backlog: backlog{limit: c.o.MaxBytes, more: make(chan struct{}, 1)}}
	answers, err := c.open(call)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errModelLost, err)
	}
	request := partMsg(c.conn.Subjects().ModelRequest(), answers, 1, len(all) > 1, all[0])
	request.Header[schemas.HeaderModelLines] = []string{"1"}
	if err := c.conn.NATS().PublishMsg(request); err != nil {
		call.end()
		return nil, fmt.Errorf("%w: %w", errModelLost, err)
	}
	return call, nil
}

// askedCall is a model call on the client's side.
type askedCall struct {
	client      *Client
	conn        *bus.Conn
	idleTimeout time.Duration
	token       string // of the subject of its answers
	backlog     backlog
	reader      partReader
	meter       meter
	frames      []byte   // that have come and were not looked at yet, one a line
	rest        [][]byte // of the request, to be sent to the server that takes it
	control     string   // subject for messages to the server of this call, once known
	over        bool     // the terminal event has come
}

// end tells the other side, unless it knows, that nobody listens any more. One that has not said yet how to reach it
// is cancelled when it does.
func (c *askedCall) end() {
	c.cancel()
	c.client.close(c)
}

// cancel has no answer: if it is lost, so is the connection, and the call with it.
func (c *askedCall) cancel() {
	if c.control != "" && !c.over {
		c.client.cancel(c.control)
	}
}

// next waits for the next event.
func (c *askedCall) next(ctx context.Context) (schemas.StreamEvent, error) {
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
			if err := c.taken(f.Call); err != nil {
				return schemas.StreamEvent{}, err
			}
		}
		if f.Event != nil {
			return c.event(f)
		}
	}
}

// frame waits for the next frame.
func (c *askedCall) frame(ctx context.Context) (frame []byte, err error) {
	for len(c.frames) == 0 {
		m, err := c.receive(ctx)
		if err != nil {
			return nil, err
		}
		payload, whole, err := c.reader.read(m)
		if err != nil {
			return nil, err
		}
		if whole { // without a frame it is a heartbeat
			c.frames = payload
		}
	}
	frame, c.frames, _ = bytes.Cut(c.frames, []byte("\n"))
	return frame, nil
}

func (c *askedCall) receive(ctx context.Context) (*nats.Msg, error) {
	idle := time.NewTimer(c.idleTimeout)
	defer idle.Stop()
	for {
		if m := c.backlog.take(); m != nil {
			if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
				return nil, errNoModels
			}
			return m, nil
		}
		if c.conn.NATS().IsClosed() {
			return nil, fmt.Errorf("%w: %w", errModelLost, nats.ErrConnectionClosed)
		}
		select {
		case <-c.backlog.more:
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-idle.C:
			return nil, fmt.Errorf("%w: the server of the model has sent nothing for %s", errModelLost, c.idleTimeout)
		}
	}
}

// taken sends what is left of the request to the server that has taken it.
func (c *askedCall) taken(call string) error {
	if err := schemas.CheckToken("model call", call); err != nil {
		return err
	}
	c.control = c.conn.Subjects().ModelCall(call)
	for i, part := range c.rest {
		if err := c.conn.NATS().PublishMsg(partMsg(c.control, "", uint64(i)+2, i < len(c.rest)-1, part)); err != nil {
			return fmt.Errorf("%w: %w", errModelLost, err)
		}
	}
	c.rest = nil
	return nil
}

func (c *askedCall) event(f schemas.ModelFrame) (schemas.StreamEvent, error) {
	e := *f.Event
	e.Message = f.Message
	if e.Terminal() && e.Message == nil {
		return e, fmt.Errorf("message %d of the model call: %s without a message", c.reader.last, e.Type)
	}
	c.over = e.Terminal()
	return e, c.meter.event(e)
}

// last is the end of a call that failed here. If that is because it was cancelled, the other side knows how far the
// reply came and what it cost.
func (c *askedCall) last(ctx context.Context, failed schemas.StreamEvent) schemas.StreamEvent {
	if ctx.Err() == nil || c.control == "" {
		return failed
	}
	c.cancel()
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), modelLast)
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
