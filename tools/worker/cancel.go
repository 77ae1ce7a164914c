package worker

import (
	"context"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
)

// maxPayload is the length of a cancellation's payload ([schemas.Cancellation]).
const maxPayload = 64

// maxCancelled is how many cancellations [cancels] remembers for calls that this worker starts later. It forgets the
// oldest first.
const maxCancelled = 4096

// cancels cancels running calls when a message is published at agent.cancel.<session>.<call>.
type cancels struct {
	mu        sync.Mutex
	running   map[string]map[*context.CancelCauseFunc]string // what cancels running calls, by <session>.<call>
	cancelled recent[struct{}]                               // keys: <session>.<call>/<payload>
}

func newCancels() *cancels {
	return &cancels{
		running:   map[string]map[*context.CancelCauseFunc]string{},
		cancelled: newRecent[struct{}](maxCancelled),
	}
}

// listen subscribes to cancellations until stop is called. It receives every cancellation that is published after
// listen has returned.
func (c *cancels) listen(nc *nats.Conn, subjects schemas.Subjects) (stop func(), err error) {
	prefix := strings.TrimSuffix(subjects.Cancel("*", "*"), "*.*")
	sub, err := nc.Subscribe(prefix+"*.*", func(m *nats.Msg) {
		if len(m.Header) > 0 || len(m.Data) == 0 {
			return // not a cancellation: a client had a NATS server send a reply to this subject
		}
		c.cancel(strings.TrimPrefix(m.Subject, prefix), string(m.Data))
	})
	if err != nil {
		return nil, err
	}
	stop = func() { _ = sub.Unsubscribe() } // fails only on a closed connection
	if err := nc.Flush(); err != nil {
		stop()
		return nil, err
	}
	return stop, nil
}

// cancel cancels the call with this key that the payload is for, now or when it starts. One of no call is remembered,
// too, until newer cancellations replace it.
func (c *cancels) cancel(key, payload string) {
	if len(payload) > maxPayload {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for kill, cancels := range c.running[key] {
		if payload == cancels {
			(*kill)(tools.ErrAborted)
		}
	}
	c.cancelled.add(key+"/"+payload, struct{}{})
}

// begin registers a call: a cancellation calls kill from now on, until end is called. If the call was cancelled before,
// begin calls kill at once.
func (c *cancels) begin(req schemas.ToolRequest, kill context.CancelCauseFunc) (end func()) {
	key, payload := req.Session+"."+string(req.Call), schemas.Cancellation(req.Nonce)
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.cancelled.get(key + "/" + payload); ok {
		kill(tools.ErrAborted)
	}
	if c.running[key] == nil {
		c.running[key] = map[*context.CancelCauseFunc]string{}
	}
	c.running[key][&kill] = payload
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.running[key], &kill)
		if len(c.running[key]) == 0 {
			delete(c.running, key)
		}
	}
}
