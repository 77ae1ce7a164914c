package models

import (
	"bytes"
	"context"
	"crypto/rand"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// connection returns the connection for the calls, and opens it for the first. It is not the connection of everything
// else: a server of models may send as much as it likes to the inbox of a client that has called it.
func (c *Client) connection(ctx context.Context) (*nats.Conn, error) {
	select {
	case c.dialing <- struct{}{}:
		defer func() { <-c.dialing }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	c.mu.Lock()
	nc := c.nc
	c.mu.Unlock()
	if nc != nil {
		return nc, nil
	}
	nc, err := c.conn.Open(ctx, "models")
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nc = nc
	return nc, err
}

// register returns a subject for the answers to a call. All calls share one subscription, because each new subscription
// makes the NATS server look up the subscribers of all its subjects again.
func (c *Client) register(nc *nats.Conn, call *clientCall) (answers string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inbox == "" {
		// Of an inbox, servers of models may publish only below schemas.ModelAnswers (decision 99).
		inbox := natsio.InboxBelow(nc, schemas.ModelAnswers+"."+rand.Text())
		sub, err := nc.Subscribe(inbox+".*", c.route)
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

// unregister removes a call. If the caller does not know yet which server has the call, unregister cancels the call by
// an answer that has arrived and was not read. If there is none, route cancels the call by the next answer.
func (c *Client) unregister(call *clientCall) {
	c.mu.Lock()
	delete(c.calls, call.token)
	c.mu.Unlock()
	defer call.backlog.close()
	for call.control == "" && !call.terminated {
		m := call.backlog.take()
		if m == nil || c.cancelSender(m) {
			return
		}
	}
}

// route passes an answer to its call. If the call has ended here, route cancels it at its server. It ignores the
// acknowledgement of a stream that stores the request.
func (c *Client) route(m *nats.Msg) {
	if m.Header.Get(schemas.HeaderModelSeq) == "" && natsio.IsAck(m.Data) {
		return
	}
	c.mu.Lock()
	call := c.calls[m.Subject[len(c.inbox)+1:]]
	share := c.answers.limit / max(len(c.calls), 1)
	c.mu.Unlock()
	if call != nil {
		call.backlog.add(m, share)
		return
	}
	c.cancelSender(m)
}

// cancelSender cancels the call that a message answers, and returns false if the message does not identify the call. It
// is identified by the reply subject, or, if the answer comes from another account and the NATS server has replaced the
// reply subject, by the first frame.
func (c *Client) cancelSender(m *nats.Msg) bool {
	id, ok := strings.CutPrefix(m.Reply, c.conn.Subjects().ModelCall(""))
	if first, _, _ := bytes.Cut(m.Data, []byte("\n")); !ok && len(first) <= maxFirst {
		f, err := schemas.DecodeModelFrame(first)
		id, ok = f.Call, err == nil && f.Call != ""
	}
	if !ok || schemas.CheckToken("model call", id) != nil {
		return false
	}
	c.cancel(c.conn.Subjects().ModelCall(id), m.Subject[len(c.inbox)+1:])
	return true
}

// maxFirst is the maximum size of the first frame of an answer, which has only the id of the call.
const maxFirst = 1 << 10

// wakeAll wakes all calls after the connection was closed, so that they end.
func (c *Client) wakeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, call := range c.calls {
		call.backlog.wake()
	}
}

// cancel requests that the server of a call stops it.
func (c *Client) cancel(control, token string) { c.tell(control, schemas.HeaderModelCancel, token) }

// tell sends a message without a number to a call. The token is that of the call's answers: a server that answers one
// call and names another one's control subject neither cancels that nor keeps it alive.
func (c *Client) tell(control, header, token string) {
	_ = c.nc.PublishMsg(&nats.Msg{Subject: control, Header: nats.Header{header: {token}}})
}

// backlog is the queue of the answers to a call that its reader has not taken yet. It drops answers beyond its limit,
// so that a slow reader does not block the other calls, which share the subscription. The partReader of the call
// detects that an answer is missing. The answers that the reader has taken count in the quota of all calls until it has
// decoded them.
type backlog struct {
	limit int           // in bytes
	quota *quota        // of all calls
	more  chan struct{} // has an element after add and wake

	mu     sync.Mutex
	msgs   []*nats.Msg
	bytes  int // of msgs
	taken  int // bytes that the reader has taken and not decoded yet
	closed bool
}

// add adds an answer. If the quota of all calls is used up, it drops the answer of a call that holds its share. A call
// below its share works on, whatever the servers of other calls send.
func (b *backlog) add(m *nats.Msg, share int) {
	b.mu.Lock()
	n := m.Size()
	if !b.closed && b.bytes < b.limit && b.quota.reserveShare(n, b.bytes+b.taken < share) {
		b.bytes += n
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
	b.taken += m.Size()
	if b.msgs = b.msgs[1:]; len(b.msgs) == 0 {
		b.msgs = nil
	}
	return m
}

// release returns to the quota what the reader has taken and decoded.
func (b *backlog) release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.quota.release(b.taken)
	b.taken = 0
}

// close drops all answers, and all that arrive later.
func (b *backlog) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.quota.release(b.bytes + b.taken)
	b.msgs, b.bytes, b.taken, b.closed = nil, 0, 0, true
}
