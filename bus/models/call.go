package models

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/schemas"
)

// serverCall is a model call on the server's side.
//
// Every message to the caller has the call's control subject as its reply subject. If the caller no longer subscribes,
// the NATS server replies with status 503: so the next heartbeat detects a caller that was lost. Not every loss shows
// so: callers send heartbeats too.
type serverCall struct {
	s        *Server
	first    *nats.Msg
	caller   string // whose share it uses
	id       string
	out      partWriter
	frames   *batcher
	in       partReader
	whole    chan []byte // receives the complete request
	complete bool        // the request is complete: further parts are dropped
	cancel   context.CancelCauseFunc
	silence  *time.Timer // ends the call if nothing comes from a caller that sends heartbeats; else nil
	model    schemas.ModelRef

	mu       sync.Mutex
	reserved int // bytes of the quota of the server, -1 once the call has ended
}

func newServerCall(s *Server, first *nats.Msg) *serverCall {
	id := rand.Text()
	return &serverCall{
		s: s, first: first, caller: callerOf(first), id: id, whole: make(chan []byte, 1), in: partReader{limit: s.o.MaxBytes},
		out: partWriter{nc: s.nc, subject: first.Reply, reply: s.conn.Subjects().ModelCall(id)},
	}
}

// run serves the call until it ends.
func (c *serverCall) run(ctx context.Context) {
	defer c.cancel(nil)
	defer c.s.uploads.end(c)
	if c.first.Reply == "" {
		c.s.o.Logger.Warn("model request without a reply subject")
		return
	}
	defer c.releaseQuota()
	c.receive(c.first)
	c.first = withoutPayload(c.first)
	defer c.expectHeartbeats()()
	defer c.s.register(c)()
	c.frames = newBatcher(&c.out, c.first.Header.Get(schemas.HeaderModelLines) != "")
	defer c.frames.close()
	c.send(schemas.ModelFrame{Call: c.id})
	defer c.heartbeats(ctx)()
	req, err := c.request(ctx)
	if err != nil {
		c.fail(ctx, err)
		return
	}
	c.s.uploads.end(c)
	if !c.s.places.Take(c.caller, 1) {
		c.fail(ctx, errServerFull)
		return
	}
	defer c.s.places.Release(c.caller, 1)
	c.model = req.Model
	c.relay(ctx, req)
}

// withoutPayload returns what a call needs of its first message once that was received.
func withoutPayload(m *nats.Msg) *nats.Msg {
	kept := &nats.Msg{Reply: m.Reply, Header: nats.Header{}}
	for _, name := range []string{schemas.HeaderModelLines, schemas.HeaderModelHeartbeat, schemas.HeaderModelToken} {
		if value := m.Header.Get(name); value != "" {
			kept.Header.Set(name, strings.Clone(value)) // it may be a part of the message
		}
	}
	return kept
}

// headerTooLarge reports whether a request has more of a header than clients send. It would be kept as long as the call
// runs, and takes much more memory than it has bytes.
func headerTooLarge(h nats.Header) bool {
	bytes := 0
	for name, values := range h {
		for _, value := range values {
			bytes += len(name) + len(value)
		}
	}
	return len(h) > maxHeaders || bytes > maxHeaderBytes
}

// refuse answers the call with an error, without reading its request.
func (c *serverCall) refuse(ctx context.Context, reason error) {
	if c.first.Reply == "" {
		return
	}
	c.out.reply = "" // the call is not registered, so it cannot be cancelled
	c.frames = newBatcher(&c.out, false)
	c.s.o.Logger.Warn("model call refused", "err", reason)
	c.fail(ctx, reason)
}

// receive handles a message to the call: a part of its request, a cancellation, a heartbeat, or the status 503 of the
// NATS server, which reports that the caller no longer subscribes. Only one goroutine may call it at a time.
func (c *serverCall) receive(m *nats.Msg) {
	switch {
	case m.Header.Get("Status") == "503" && len(m.Data) == 0:
		c.cancel(errNoCaller)
		return
	case m.Header.Get(schemas.HeaderModelCancel) != "":
		if c.mine(m.Header.Get(schemas.HeaderModelCancel)) {
			c.cancel(errCancelled)
		}
		return
	case m.Header.Get(schemas.HeaderModelHeartbeat) != "" && m.Header.Get(schemas.HeaderModelSeq) == "":
		if c.mine(m.Header.Get(schemas.HeaderModelHeartbeat)) {
			c.heard()
		}
		return
	}
	if c.complete {
		return
	}
	c.heard()
	if !c.take(len(m.Data)) {
		c.cancel(errQuotaExceeded)
		return
	}
	payload, whole, err := c.in.read(m)
	if err != nil {
		c.cancel(err)
		return
	}
	if c.complete = whole; whole {
		c.whole <- payload
	}
}

// take is reserve, but while the quota is exhausted it ends requests that are not whole, of the caller with the most
// bytes. It returns false if this call is one of them or has ended, or if there is none.
func (c *serverCall) take(n int) bool {
	for !c.reserve(n) {
		if c.hasEnded() {
			return false
		}
		surplus := c.s.uploads.endOneOf(c.s.requests.Held)
		if surplus == nil || surplus == c {
			return false
		}
		surplus.cancel(errQuotaExceeded)
		surplus.releaseQuota()
	}
	return true
}

func (c *serverCall) hasEnded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reserved < 0
}

// reserve reserves n bytes of the quota of the server. It returns false if the caller has used up its share or the call
// has ended.
func (c *serverCall) reserve(n int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reserved < 0 || !c.s.requests.Take(c.caller, n) {
		return false
	}
	c.reserved += n
	return true
}

// reserveDecoded reserves the memory that the decoded request takes in addition to its text: for a list of empty tools
// that is two hundred times the text.
func (c *serverCall) reserveDecoded(payload []byte) error {
	values := schemas.CountValues(payload)
	switch n := values * schemas.ValueBytes; {
	case n > c.s.requests.Limit()/2: // the largest share
		return schemas.NewFailure(schemas.FailureTooLarge, fmt.Sprintf("the request has %d values, more than %d", values,
			c.s.requests.Limit()/2/schemas.ValueBytes))
	case !c.take(n):
		return errQuotaExceeded
	}
	return nil
}

// releaseQuota releases what the call has reserved. Later reservations fail.
func (c *serverCall) releaseQuota() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reserved > 0 {
		c.s.requests.Release(c.caller, c.reserved)
	}
	c.reserved = -1
}

// request waits for the complete request and decodes it.
func (c *serverCall) request(ctx context.Context) (req schemas.ModelRequest, err error) {
	timeout := time.NewTimer(uploadTimeout)
	defer timeout.Stop()
	select {
	case payload := <-c.whole:
		if err := c.reserveDecoded(payload); err != nil {
			return req, err
		}
		if len(payload) > decodedFreely {
			select {
			case c.s.decoding <- struct{}{}:
				defer func() { <-c.s.decoding }()
			case <-ctx.Done():
				return req, context.Cause(ctx)
			}
		}
		if req, err = schemas.DecodeModelRequest(payload); err != nil {
			return req, &schemas.FailureError{
				Code: schemas.FailureInvalidRequest, Err: fmt.Errorf("malformed model request: %w", err),
			}
		}
		return req, nil
	case <-timeout.C:
		return req, fmt.Errorf("%w: the request was not whole after %s", errModelLost, uploadTimeout)
	case <-ctx.Done():
		return req, context.Cause(ctx)
	}
}

// relay calls the model and sends its events to the caller.
func (c *serverCall) relay(ctx context.Context, req schemas.ModelRequest) {
	defer func() {
		if v := recover(); v != nil {
			c.s.o.Logger.Error("model panicked", "model", req.Model.String(), "panic", v, "stack", string(debug.Stack()))
			c.fail(ctx, fmt.Errorf("model %s panicked", req.Model))
		}
	}()
	for e, err := range c.s.o.Model.Stream(ctx, req) {
		if err != nil {
			c.fail(ctx, err)
			return
		}
		if !c.sendEvent(ctx, e) || e.Terminal() {
			return
		}
	}
	c.fail(ctx, errNoTerminal)
}

// sendEvent sends an event of the model to the caller. It returns false if no event may follow: it has sent an error,
// or it could not send. A reply that the server has aborted becomes an error, so that the caller
// retries.
func (c *serverCall) sendEvent(ctx context.Context, e schemas.StreamEvent) bool {
	if e.Terminal() && e.Message == nil {
		c.fail(ctx, errNoTerminal)
		return false
	}
	if cause := serverCause(ctx); cause != nil && e.Terminal() && e.Message.StopReason == schemas.StopAborted {
		m := *e.Message
		m.StopReason, m.ErrorMessage = schemas.StopError, cause.Error()
		e.Reason, e.FailureCode, e.Message = m.StopReason, schemas.FailureCodeOf(cause), &m
	}
	return c.send(schemas.ModelFrame{Event: &e, Message: e.Message})
}

// serverCause returns why the server has cancelled the call. It returns nil if the caller has cancelled it or was lost,
// or if the call is not cancelled. Otherwise the caller may try another server.
func serverCause(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, errCancelled) || errors.Is(cause, errNoCaller) {
		return nil
	}
	return cause
}

// fail ends the call with an error event.
func (c *serverCall) fail(ctx context.Context, err error) {
	c.sendEvent(ctx, failedReply(ctx, c.model, err))
}

func (c *serverCall) send(f schemas.ModelFrame) bool {
	data, err := schemas.Marshal(f)
	if err == nil {
		err = c.frames.send(data)
	}
	if err != nil { // the caller detects the gap in the sequence
		c.s.o.Logger.Warn("model reply not sent", "model", c.model.String(), "err", err)
	}
	return err == nil
}
