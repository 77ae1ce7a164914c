package models

import (
	"context"
	"time"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// heartbeats sends heartbeats until stop is called.
func (c *serverCall) heartbeats(ctx context.Context) (stop func()) {
	// A cancelled model may take a while to return.
	return every(context.WithoutCancel(ctx), c.s.o.Heartbeat, func() {
		_ = c.out.write(nil) // if it fails, the IdleTimeout of the caller ends the call
	})
}

// expectHeartbeats ends the call when its caller sends nothing for too long, until stop is called. Older callers
// announce none: their calls go on.
func (c *serverCall) expectHeartbeats() (stop func()) {
	if c.first.Header.Get(schemas.HeaderModelHeartbeat) == "" {
		return func() {}
	}
	c.silence = time.AfterFunc(c.s.o.CallerTimeout, func() { c.cancel(errCallerSilent) })
	return func() { c.silence.Stop() }
}

// heard records that the caller is there.
func (c *serverCall) heard() {
	if c.silence != nil {
		c.silence.Reset(c.s.o.CallerTimeout)
	}
}

// mine reports whether a message with this token is from the caller. Older callers have no token.
func (c *serverCall) mine(token string) bool {
	own := c.first.Header.Get(schemas.HeaderModelToken)
	return own == "" || own == token
}

// heartbeats sends heartbeats to the server of the call until stop is called.
func (c *clientCall) heartbeats() (stop func()) {
	return every(context.Background(), c.client.o.Heartbeat, func() {
		c.client.tell(c.control, schemas.HeaderModelHeartbeat, c.token)
	})
}

// every calls send after each interval until stop is called, which waits for it.
func every(ctx context.Context, interval time.Duration, send func()) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for natsio.Wait(ctx, interval) {
			send()
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}
