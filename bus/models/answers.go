package models

import (
	"bytes"
	"context"
	"crypto/rand"
	"strings"

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
	defer call.backlog.Close()
	for call.control == "" && !call.terminated {
		m := call.backlog.Take()
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
	share := c.answers.Share(len(c.calls))
	c.mu.Unlock()
	if call != nil {
		call.backlog.Add(m, share)
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
		call.backlog.Wake()
	}
}

// cancel requests that the server of a call stops it.
func (c *Client) cancel(control, token string) { c.tell(control, schemas.HeaderModelCancel, token) }

// tell sends a message without a number to a call. The token is that of the call's answers: a server that answers one
// call and names another one's control subject neither cancels that nor keeps it alive.
func (c *Client) tell(control, header, token string) {
	_ = c.nc.PublishMsg(&nats.Msg{Subject: control, Header: nats.Header{header: {token}}})
}
