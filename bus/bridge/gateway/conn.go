package gateway

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/loopbus/loopbus/bus/bridge"
	"github.com/loopbus/loopbus/bus/bridge/lifecycle"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/schemas"
)

// conn is one WebSocket.
type conn struct {
	b      *Bridge
	ws     *websocket.Conn
	end    func() // closes the underlying connection
	cancel context.CancelCauseFunc
	name   string         // its caller in budgets
	parts  sync.WaitGroup // goroutines of the connection

	mu     sync.Mutex
	seq    uint64 // number of the last event
	ending bool
}

var (
	errGone   = errors.New("the client disconnected")
	errSilent = errors.New("the client did not connect in time, and another one needed its place")
)

// eventFrame is an event of either dialect.
type eventFrame struct {
	Type         string `json:"type"`
	Event        string `json:"event"`
	Payload      any    `json:"payload,omitempty"`
	Seq          uint64 `json:"seq"`
	StateVersion any    `json:"stateVersion,omitempty"`
}

// event sends an event with the connection's next number. A client that does not accept it in time is disconnected.
func (c *conn) event(name string, payload, stateVersion any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := eventFrame{Type: "event", Event: name, Payload: payload, Seq: c.seq + 1, StateVersion: stateVersion}
	if err := c.write(f); err != nil {
		return err
	}
	c.seq++
	return nil
}

// send sends a frame without a number.
func (c *conn) send(frame any) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.write(frame)
}

// write writes a frame, and holds it meanwhile, an event with what it was made of. Without room it fails with
// [bridge.ErrFull] and has written nothing. The caller holds the lock.
func (c *conn) write(frame any) error {
	data, err := schemas.Marshal(frame)
	if err != nil {
		return err
	}
	hold, bytes := c.b.o.Views.Hold(c.name), len(data)
	if _, ok := frame.(eventFrame); ok {
		bytes *= 2 // what an answer is made of is held already
	}
	if err := hold.Set(bytes); err != nil {
		return fmt.Errorf("a frame of %d bytes: %w", len(data), err)
	}
	defer hold.Release()
	ctx, cancel := context.WithTimeout(context.Background(), c.b.o.WriteTimeout)
	defer cancel()
	if err := c.ws.Write(ctx, websocket.MessageText, data); err != nil {
		c.cancel(errGone)
		return errGone
	}
	return nil
}

// stopping tells the client that the runner stops, and ends the connection.
func (c *conn) stopping() {
	c.mu.Lock()
	c.ending = true
	c.mu.Unlock()
	_ = c.event("shutdown", map[string]any{"reason": "the runner stops"}, nil)
	c.cancel(context.Canceled)
}

// close ends the connection and waits for its goroutines.
func (c *conn) close() {
	c.cancel(nil)
	code, reason := websocket.StatusNormalClosure, ""
	c.mu.Lock()
	if c.ending {
		code, reason = websocket.StatusGoingAway, "the runner stops"
	}
	c.mu.Unlock()
	c.shut(code, reason)
	c.parts.Wait()
}

// shut closes the WebSocket, without waiting long for the client's part.
func (c *conn) shut(code websocket.StatusCode, reason string) {
	hurry := time.AfterFunc(time.Second, c.end)
	defer hurry.Stop()
	_ = c.ws.Close(code, reason)
}

// broken ends the connection because something that it follows until ctx ends cannot be followed any further. Otherwise
// the client would take what it knows for the current state: now it connects again and reads anew.
func (c *conn) broken(ctx context.Context, what string, err error) {
	if ctx.Err() != nil || errors.Is(err, errGone) {
		return // nobody is to be told
	}
	c.b.o.Logger.Warn("connection ended: what it follows cannot be read on", "follows", what, "err", err)
	code := websocket.StatusInternalError
	if errors.Is(err, bridge.ErrFull) {
		code = websocket.StatusTryAgainLater
	}
	c.shut(code, what+" cannot be followed any further: connect again and read anew")
	c.cancel(err)
}

// project sends the events of a session to a viewer.
func (c *conn) project(ctx context.Context, s *client.Session, after uint64, now bool) {
	c.ws.SetReadLimit(1)
	ctx = c.ws.CloseRead(ctx) // anything that the client sends ends the connection
	c.parts.Go(func() { c.ping(ctx) })
	var p lifecycle.Projection
	hold := c.b.o.Views.Hold(s.ID())
	defer hold.Release()
	s = s.WithRoom(hold.Load)
	if now {
		f := bridge.Follower{Session: s, Load: c.b.o.Load, Outlined: true}
		if err := f.Open(ctx); err != nil {
			c.fail(err)
			return
		}
		p, after = lifecycle.From(f.State), f.State.Seq
	}
	for item, err := range s.Watch(ctx, p.State().Seq+1) {
		if err != nil {
			if !bridge.Gone(ctx, err) {
				c.fail(err)
			}
			return
		}
		events, err := p.Apply(item)
		if err == nil {
			err = hold.Set(p.Bytes())
		}
		if err != nil {
			c.fail(err)
			return
		}
		if item.Event != nil && item.Seq() <= after {
			continue
		}
		for _, e := range events {
			if err := c.event(e.Name, e.Payload, e.StateVersion); err != nil {
				c.broken(ctx, "session "+s.ID(), err)
				return
			}
		}
	}
}

// fail tells a viewer why the events end.
func (c *conn) fail(err error) {
	_, code := bridge.Status(err)
	_ = c.event("error", lifecycle.Failure{Code: code, Message: err.Error(), Recoverable: true}, nil)
}

// ping checks regularly whether the client is still there.
func (c *conn) ping(ctx context.Context) {
	tick := time.NewTicker(c.b.o.TickInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			one, cancel := context.WithTimeout(ctx, c.b.o.WriteTimeout)
			err := c.ws.Ping(one)
			cancel()
			if err != nil {
				c.cancel(errGone)
				return
			}
		}
	}
}
