package models

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/backlog"
	"github.com/loopbus/loopbus/schemas"
)

// ClientOptions configures [NewClient].
type ClientOptions struct {
	// IdleTimeout is how long the server of a call may send nothing before the call fails, because the server counts as
	// lost; 0 means five seconds. Servers send a heartbeat every second. How long a reply may have no event is up to the
	// context of the call: what has no event is not yielded.
	IdleTimeout time.Duration
	// StallTimeout is how long the events of a reply may make no progress; 0 means an hour, as for the reply of a vendor.
	StallTimeout time.Duration
	Heartbeat    time.Duration // between two heartbeats to the server of a call; 0 means five seconds
	// MaxBytes is the maximum size of a request, and of one event of an answer; 0 means 64 MiB.
	MaxBytes int
	// MaxTotal limits the bytes of the answers of all calls that are not decoded yet; 0 means 128 MiB. If they are used
	// up, every call may still hold an equal share, so all calls hold at most twice as much, and one message each.
	MaxTotal int
	Bounds   Bounds // limits of a reply
}

// Client calls the models of [Server]s. It needs no API keys and sends none. It may be used concurrently.
type Client struct {
	conn    *bus.Conn
	o       ClientOptions
	answers *backlog.Quota // of the answers that are not decoded yet, including those that are not complete

	dialing chan struct{} // full while the connection is opened

	mu    sync.Mutex
	nc    *nats.Conn             // for the calls; nil before the first
	inbox string                 // prefix of the subjects of all answers; "" before the first call
	calls map[string]*clientCall // running calls, by the last token of the subject of their answers
}

// NewClient returns a client on c. The caller owns c and must not close it before the client's calls have ended.
func NewClient(c *bus.Conn, o ClientOptions) *Client {
	if o.IdleTimeout == 0 {
		o.IdleTimeout = idleTimeout
	}
	o.StallTimeout = cmp.Or(o.StallTimeout, defaultStallTimeout)
	o.Heartbeat = cmp.Or(o.Heartbeat, defaultCallerHeartbeat)
	if o.MaxBytes == 0 {
		o.MaxBytes = defaultMaxBytes
	}
	if o.MaxTotal == 0 {
		o.MaxTotal = defaultMaxAnswers
	}
	o.Bounds = o.Bounds.orDefaults()
	return &Client{conn: c, o: o, answers: backlog.NewQuota(o.MaxTotal), calls: map[string]*clientCall{},
		dialing: make(chan struct{}, 1)}
}

// Stream calls the model that the id of req.Model names at the server ([Provider]). A failure is an error event; the
// iterator yields no error. If a message or the server is lost, the error event has a failure code with which a retry
// may succeed. When ctx ends, Stream cancels the call at once, and the stream ends with the partial reply.
func (c *Client) Stream(ctx context.Context, req schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	return func(yield func(schemas.StreamEvent, error) bool) {
		call, err := c.begin(ctx, req)
		if err != nil {
			yield(failedReply(ctx, req.Model, err), nil)
			return
		}
		defer call.close()
		for {
			e, err := call.next(ctx)
			if err != nil {
				e = call.finalEvent(ctx, failedReply(ctx, req.Model, err))
			}
			if e.Terminal() && e.Message.StopReason == schemas.StopAborted && ctx.Err() == nil {
				e = call.notAborted(e)
			}
			call.stall.Pause()
			if !yield(e, nil) || e.Terminal() {
				return
			}
			call.stall.Resume()
		}
	}
}

// begin sends the request, or its first part if it does not fit in one message.
func (c *Client) begin(ctx context.Context, req schemas.ModelRequest) (*clientCall, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	req.Model = schemas.ModelRef{ID: req.Model.ID} // the server resolves the id
	data, err := schemas.Marshal(req)
	if err != nil {
		return nil, fmt.Errorf("encode the request of model %s: %w", req.Model, err)
	}
	if len(data) > c.o.MaxBytes {
		return nil, &schemas.FailureError{Code: schemas.FailureTooLarge, Err: fmt.Errorf(
			"the request has %d bytes, and at most %d go over the bus", len(data), c.o.MaxBytes)}
	}
	nc, err := c.connection(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errModelLost, err)
	}
	all := parts(nc, data)
	call := &clientCall{client: c, nc: nc, idleTimeout: c.o.IdleTimeout, remaining: all[1:],
		reader: partReader{limit: c.o.MaxBytes}, meter: meter{bounds: c.o.Bounds},
		backlog: backlog.New(c.o.MaxBytes, c.answers)}
	answers, err := c.register(nc, call)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errModelLost, err)
	}
	request := partMsg(c.conn.Subjects().ModelRequest(), answers, 1, len(all) > 1, all[0])
	request.Header[schemas.HeaderModelLines] = []string{"1"}
	request.Header[schemas.HeaderModelToken] = []string{call.token}
	request.Header[schemas.HeaderModelHeartbeat] = []string{"1"}
	if err := nc.PublishMsg(request); err != nil {
		call.close()
		return nil, fmt.Errorf("%w: %w", errModelLost, err)
	}
	return call, nil
}
