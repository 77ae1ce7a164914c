package worker

import (
	"context"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
)

// maxNonce is the longest nonce, a subject token.
const maxNonce = 64

// maxCancelled is how many cancellations are remembered for calls that have not begun here: the oldest go first.
const maxCancelled = 4096

// cancels connects what is published at agent.cancel.<session>.<call> with the calls at work.
type cancels struct {
	mu        sync.Mutex
	running   map[string]map[*context.CancelCauseFunc]string // nonces, by session and call
	cancelled recent[struct{}]                               // of these calls, with the nonce where it was named
}

func newCancels() *cancels {
	return &cancels{
		running:   map[string]map[*context.CancelCauseFunc]string{},
		cancelled: newRecent[struct{}](maxCancelled),
	}
}

// listen begins to take cancellations and returns what ends it. No cancellation published after listen has returned
// is missed.
func (c *cancels) listen(nc *nats.Conn, subjects schemas.Subjects) (stop func(), err error) {
	prefix := strings.TrimSuffix(subjects.Cancel("*", "*"), "*.*")
	sub, err := nc.Subscribe(prefix+"*.*", func(m *nats.Msg) {
		if len(m.Header) > 0 {
			return // nobody gives a cancellation one: it is a status that a server was made to send here
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

// cancel stops the call with this nonce, now or when it begins; without one, whatever call has the key. A key that
// belongs to no call takes up room for a while.
func (c *cancels) cancel(key, nonce string) {
	if len(nonce) > maxNonce {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for kill, of := range c.running[key] {
		if nonce == "" || nonce == of {
			(*kill)(tools.ErrAborted)
		}
	}
	c.cancelled.add(key+"/"+nonce, struct{}{})
}

// begin has kill called when the call is cancelled, at once if it has been already. The function it returns ends that.
func (c *cancels) begin(req schemas.ToolRequest, kill context.CancelCauseFunc) (end func()) {
	key := req.Session + "." + string(req.Call)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, nonce := range []string{"", req.Nonce} {
		if _, ok := c.cancelled.get(key + "/" + nonce); ok {
			kill(tools.ErrAborted)
		}
	}
	if c.running[key] == nil {
		c.running[key] = map[*context.CancelCauseFunc]string{}
	}
	c.running[key][&kill] = req.Nonce
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.running[key], &kill)
		if len(c.running[key]) == 0 {
			delete(c.running, key)
		}
	}
}
