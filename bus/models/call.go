package models

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// servedCall is a model call on the server's side.
//
// Every message to the caller names the call's control subject as its reply subject. Nobody replies to it but the NATS
// server, when the caller does not listen any more: so a caller that died is noticed with the next heartbeat.
type servedCall struct {
	s      *Server
	first  *nats.Msg
	id     string
	out    partWriter
	frames *gatherer
	in     partReader
	whole  chan []byte // the request, once all of it is here
	has    bool        // all of it: what comes then is dropped
	cancel context.CancelCauseFunc
	model  schemas.ModelRef

	mu   sync.Mutex
	held int // bytes of the request that the server counts, -1 once the call is over
}

func newServedCall(s *Server, first *nats.Msg) *servedCall {
	id := rand.Text()
	return &servedCall{
		s: s, first: first, id: id, whole: make(chan []byte, 1), in: partReader{limit: s.o.MaxBytes},
		out: partWriter{nc: s.conn.NATS(), subject: first.Reply, reply: s.conn.Subjects().ModelCall(id)},
	}
}

// run serves the call to its end.
func (c *servedCall) run(ctx context.Context) {
	if c.first.Reply == "" {
		c.s.o.Logger.Warn("model request without a reply subject")
		return
	}
	ctx, c.cancel = context.WithCancelCause(ctx)
	defer c.cancel(nil)
	defer c.letGo()
	c.receive(c.first)
	defer c.s.enter(c)()
	c.frames = newGatherer(&c.out, c.first.Header.Get(schemas.HeaderModelLines) != "")
	defer c.frames.close()
	c.send(schemas.ModelFrame{Call: c.id})
	defer c.heartbeats(ctx)()
	req, err := c.request(ctx)
	if err != nil {
		c.fail(ctx, err)
		return
	}
	c.model = req.Model
	c.relay(ctx, req)
}

// refuse answers the call with an error at once.
func (c *servedCall) refuse(ctx context.Context, reason error) {
	if c.first.Reply == "" {
		return
	}
	c.out.reply = "" // nobody listens there
	c.frames = newGatherer(&c.out, false)
	c.s.o.Logger.Warn("model call refused", "err", reason)
	c.fail(ctx, reason)
}

// receive takes what is said to the call: the rest of its request, that it is to stop, or, by the NATS server, that
// nobody listens to what it says. It is called by one goroutine at a time.
func (c *servedCall) receive(m *nats.Msg) {
	switch {
	case m.Header.Get("Status") == "503" && len(m.Data) == 0:
		c.cancel(errModelGone)
		return
	case m.Header.Get(schemas.HeaderModelCancel) != "":
		c.cancel(errCancelled)
		return
	}
	if c.has {
		return
	}
	if !c.hold(len(m.Data)) {
		c.cancel(errModelsBytes)
		return
	}
	payload, whole, err := c.in.read(m)
	if err != nil {
		c.cancel(err)
		return
	}
	if c.has = whole; whole {
		c.whole <- payload
	}
}

// hold counts bytes of the request among those of all requests, unless these have no room.
func (c *servedCall) hold(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held < 0 || !c.s.requests.add(n) {
		return false
	}
	c.held += n
	return true
}

// valueBytes is about what a value of a request takes while it is decoded and afterwards, beside its text.
const valueBytes = 256

// holdDecoded counts what the request takes besides its text: a list of empty tools takes two hundred times that.
func (c *servedCall) holdDecoded(payload []byte) error {
	values := schemas.CountValues(payload)
	switch n := values * valueBytes; {
	case n > c.s.requests.limit:
		return schemas.NewFailure(schemas.FailureTooLarge, fmt.Sprintf("the request has %d values, more than %d", values,
			c.s.requests.limit/valueBytes))
	case !c.hold(n):
		return errModelsBytes
	}
	return nil
}

// letGo ends the counting.
func (c *servedCall) letGo() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held > 0 {
		c.s.requests.remove(c.held)
	}
	c.held = -1
}

// request waits for the whole request.
func (c *servedCall) request(ctx context.Context) (req schemas.ModelRequest, err error) {
	timeout := time.NewTimer(modelUpload)
	defer timeout.Stop()
	select {
	case payload := <-c.whole:
		if err := c.holdDecoded(payload); err != nil {
			return req, err
		}
		if req, err = schemas.DecodeModelRequest(payload); err != nil {
			return req, &schemas.FailureError{
				Code: schemas.FailureInvalidRequest, Err: fmt.Errorf("malformed model request: %w", err),
			}
		}
		return req, nil
	case <-timeout.C:
		return req, fmt.Errorf("%w: the request was not whole after %s", errModelLost, modelUpload)
	case <-ctx.Done():
		return req, context.Cause(ctx)
	}
}

// heartbeats sends heartbeats until stop is called.
func (c *servedCall) heartbeats(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // a model may take a while to stop
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for natsio.Wait(ctx, c.s.o.Heartbeat) {
			_ = c.out.write(nil) // a caller that misses it knows what that means
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// relay asks the model and passes on what it says.
func (c *servedCall) relay(ctx context.Context, req schemas.ModelRequest) {
	defer func() {
		if v := recover(); v != nil {
			c.s.o.Logger.Error("the model panicked", "model", req.Model.String(), "panic", v, "stack", string(debug.Stack()))
			c.fail(ctx, fmt.Errorf("model %s panicked", req.Model))
		}
	}()
	for e, err := range c.s.o.Model.Stream(ctx, req) {
		if err != nil {
			c.fail(ctx, err)
			return
		}
		if !c.pass(ctx, e) || e.Terminal() {
			return
		}
	}
	c.fail(ctx, errModelNoEnd)
}

// pass sends an event.
func (c *servedCall) pass(ctx context.Context, e schemas.StreamEvent) bool {
	if e.Terminal() && e.Message == nil {
		c.fail(ctx, errModelNoEnd)
		return false
	}
	if cut := cutOff(ctx); cut != nil && e.Terminal() && e.Message.StopReason == schemas.StopAborted {
		m := *e.Message
		m.StopReason, m.ErrorMessage = schemas.StopError, cut.Error()
		e.Reason, e.FailureCode, e.Message = m.StopReason, schemas.FailureCodeOf(cut), &m
	}
	return c.send(schemas.ModelFrame{Event: &e, Message: e.Message})
}

// cutOff is why the call ended early, where that was not its caller's wish: it may ask another server.
func cutOff(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, errCancelled) || errors.Is(cause, errModelGone) {
		return nil
	}
	return cause
}

// fail ends the call with an error event.
func (c *servedCall) fail(ctx context.Context, err error) {
	c.pass(ctx, failedReply(ctx, c.model, err))
}

func (c *servedCall) send(f schemas.ModelFrame) bool {
	data, err := schemas.Marshal(f)
	if err == nil {
		err = c.frames.send(data)
	}
	if err != nil { // the caller will miss the message
		c.s.o.Logger.Warn("sending to the caller of a model", "model", c.model.String(), "err", err)
	}
	return err == nil
}
