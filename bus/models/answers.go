package models

import (
	"crypto/rand"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/schemas"
)

// open gives a call a subject for its answers. All calls share one subscription: every new one has the NATS server look
// all its subjects up anew.
func (c *Client) open(call *askedCall) (answers string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inbox == "" {
		inbox := c.conn.NATS().NewInbox()
		sub, err := c.conn.NATS().Subscribe(inbox+".*", c.hear)
		if err != nil {
			return "", err
		}
		sub.SetClosedHandler(func(string) { c.wakeAll() })
		c.inbox = inbox
	}
	call.token = rand.Text()
	c.calls[call.token] = call
	return c.inbox + "." + call.token, nil
}

func (c *Client) close(call *askedCall) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, call.token)
}

// hear gives an answer to its call. Whoever answers a call that has ended is told to stop.
func (c *Client) hear(m *nats.Msg) {
	c.mu.Lock()
	call := c.calls[m.Subject[len(c.inbox)+1:]]
	c.mu.Unlock()
	if call != nil {
		call.heard.add(m)
		return
	}
	id, ok := strings.CutPrefix(m.Reply, c.conn.Subjects().ModelCall(""))
	if ok && schemas.CheckToken("model call", id) == nil {
		c.cancel(m.Reply)
	}
}

// wakeAll has all calls look at the connection, which is closed.
func (c *Client) wakeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, call := range c.calls {
		call.heard.wake()
	}
}

// cancel tells whoever serves a call to stop.
func (c *Client) cancel(control string) {
	_ = c.conn.NATS().PublishMsg(&nats.Msg{Subject: control, Header: nats.Header{schemas.HeaderModelCancel: {"1"}}})
}

// heard are the answers to a call that nobody has taken yet. Beyond its limit of bytes they are dropped, so that one
// slow reader does not hold the others up; a call notices that one is missing.
type heard struct {
	limit int
	more  chan struct{} // has a token when there is something new

	mu    sync.Mutex
	msgs  []*nats.Msg
	bytes int
}

func (h *heard) add(m *nats.Msg) {
	h.mu.Lock()
	if h.bytes < h.limit {
		h.bytes += m.Size()
		h.msgs = append(h.msgs, m)
	}
	h.mu.Unlock()
	h.wake()
}

func (h *heard) wake() {
	select {
	case h.more <- struct{}{}:
	default:
	}
}

// take returns the oldest answer, nil if there is none.
func (h *heard) take() *nats.Msg {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.msgs) == 0 {
		return nil
	}
	m := h.msgs[0]
	h.bytes -= m.Size()
	if h.msgs = h.msgs[1:]; len(h.msgs) == 0 {
		h.msgs = nil
	}
	return m
}
