package models

import (
	"crypto/rand"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// open gives a call a subject for its answers. All calls share one subscription: every new one has the NATS server look
// all its subjects up anew.
func (c *Client) open(call *askedCall) (answers string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inbox == "" {
		// Who serves models may answer below schemas.ModelAnswers and nowhere else of the inbox (decision 99).
		inbox := natsio.InboxBelow(c.conn.NATS(), schemas.ModelAnswers+"."+rand.Text())
		sub, err := c.conn.NATS().Subscribe(inbox+".*", c.route)
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

// route gives an answer to its call. It cancels an answer to a call that has ended.
func (c *Client) route(m *nats.Msg) {
	c.mu.Lock()
	call := c.calls[m.Subject[len(c.inbox)+1:]]
	c.mu.Unlock()
	if call != nil {
		call.backlog.add(m)
		return
	}
	id, ok := strings.CutPrefix(m.Reply, c.conn.Subjects().ModelCall(""))
	if ok && schemas.CheckToken("model call", id) == nil {
		c.cancel(m.Reply)
	}
}

// wakeAll has all calls check the connection, which is closed.
func (c *Client) wakeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, call := range c.calls {
		call.backlog.wake()
	}
}

// cancel asks the server of a call to stop.
func (c *Client) cancel(control string) {
	_ = c.conn.NATS().PublishMsg(&nats.Msg{Subject: control, Header: nats.Header{schemas.HeaderModelCancel: {"1"}}})
}

// backlog has the answers to a call that its reader has not taken yet. Beyond its limit of bytes they are dropped, so
// that one slow reader does not hold the others up; a call notices that one is missing.
type backlog struct {
	limit int
	more  chan struct{} // has a token when there is something new

	mu    sync.Mutex
	msgs  []*nats.Msg
	bytes int
}

func (b *backlog) add(m *nats.Msg) {
	b.mu.Lock()
	if b.bytes < b.limit {
		b.bytes += m.Size()
		b.msgs = append(b.msgs, m)
	}
	b.mu.Unlock()
	b.wake()
}

func (b *backlog) wake() {
	select {
	case b.more <- struct{}{}:
	default:
	}
}

// take returns the oldest answer, nil if there is none.
func (b *backlog) take() *nats.Msg {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.msgs) == 0 {
		return nil
	}
	m := b.msgs[0]
	b.bytes -= m.Size()
	if b.msgs = b.msgs[1:]; len(b.msgs) == 0 {
		b.msgs = nil
	}
	return m
}
