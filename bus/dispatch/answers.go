package dispatch

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/schemas"
)

const (
	// maxReceived is how many messages the subject of a call receives: its answer, perhaps twice, and of each worker that
	// takes the call a check whether the caller is live. A worker may send more.
	maxReceived = 16

	// maxWaiting is how many bytes of them wait to be read. More are dropped. One message of the largest size of a NATS
	// server with default settings fits, so that a call learns of an answer that is too large.
	maxWaiting = 1 << 20

	// idleTime is how long the connection for the answers of a tool stays open without calls, and maxIdle how many tools
	// have connections before those without calls are closed at once.
	idleTime, maxIdle = time.Minute, 32
)

// answers receives the answers to calls. Those of each tool have a connection of their own: its workers know the
// subjects of its calls and may send as much as they like, until a NATS server ends the connection that does not read
// fast enough. That costs only answers of their own tool.
type answers struct {
	conn *bus.Conn
	idle time.Duration

	mu     sync.Mutex
	closed bool
	lines  map[schemas.ToolQueue]*line
}

// line is the connection for the answers of a tool.
type line struct {
	*bus.LazyConn
	queue    schemas.ToolQueue
	decoding sync.Mutex // one answer is decoded at a time: those of other tools do not wait for memory behind them

	calls  int         // guarded by answers.mu, like expiry
	expiry *time.Timer // runs while there are no calls
}

func newAnswers(c *bus.Conn) *answers {
	return &answers{conn: c, idle: idleTime, lines: map[schemas.ToolQueue]*line{}}
}

// join returns the line of a tool for a call, which has to leave it. It opens no connection.
func (a *answers) join(queue schemas.ToolQueue) *line {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.lines[queue]
	if l == nil {
		l = &line{LazyConn: a.conn.Lazy("answers/" + queue.Name()), queue: queue}
		a.lines[queue] = l
	}
	l.calls++
	if l.expiry != nil {
		l.expiry.Stop()
	}
	return l
}

// leave ends a call. The connection without calls is closed later, or now if there are many.
func (a *answers) leave(l *line) {
	a.mu.Lock()
	l.calls--
	if now := a.closed || len(a.lines) > maxIdle; !now && l.calls == 0 {
		l.expiry = time.AfterFunc(a.idle, func() { a.expire(l) })
		a.mu.Unlock()
		return
	}
	a.mu.Unlock()
	a.expire(l)
}

// expire closes a line unless it has calls again.
func (a *answers) expire(l *line) {
	a.mu.Lock()
	unused := l.calls == 0
	if unused && a.lines[l.queue] == l {
		delete(a.lines, l.queue)
	}
	a.mu.Unlock()
	if unused {
		l.Close()
	}
}

// close closes the connections: those with calls under way when the last of them has ended.
func (a *answers) close() {
	a.mu.Lock()
	a.closed = true
	var unused []*line
	for _, l := range a.lines {
		if l.calls == 0 {
			l.expiry.Stop()
			unused = append(unused, l)
		}
	}
	a.mu.Unlock()
	for _, l := range unused {
		a.expire(l)
	}
}

// outcome is the answer to a call, or why it has none.
type outcome struct {
	response *schemas.ToolResponse
	err      error
}

// listener takes the answer to one call.
type listener struct {
	line    *line
	req     schemas.ToolRequest
	sub     *nats.Subscription
	outcome chan outcome // has room for the only element
	decided bool         // of the subscription's goroutine
	ended   atomic.Bool  // the call
}

// listen listens for the answer to a call. When it returns, the NATS server knows of the subscription: the call leaves
// by another connection.
func (l *line) listen(ctx context.Context, req schemas.ToolRequest) (*listener, error) {
	nc, err := l.Open(ctx)
	if err != nil {
		return nil, err
	}
	r := &listener{line: l, req: req, outcome: make(chan outcome, 1)}
	if r.sub, err = nc.Subscribe(req.ReplyTo, r.receive); err != nil {
		return nil, err
	}
	err = errors.Join(r.sub.SetPendingLimits(maxReceived, maxWaiting), r.sub.AutoUnsubscribe(maxReceived))
	if err == nil {
		err = nc.FlushWithContext(ctx)
	}
	if err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

func (r *listener) close() {
	r.ended.Store(true)
	_ = r.sub.Unsubscribe() // fails only if it has ended
}

// receive responds to a worker that checks whether the caller is live. The first other message decides the call: only
// the workers of its tool know the subject, so one that is not the answer ends the call, lest more of them follow. What
// comes later, such as an answer that arrives twice, is dropped.
func (r *listener) receive(msg *nats.Msg) {
	switch {
	case len(msg.Data) == 0:
		if schemas.MayAnswer(msg.Reply) { // any client may ask, but must not choose any subject for the response
			_ = msg.Respond(nil) // a worker that gets no answer continues all the same
		}
	case !r.decided:
		r.decided = true
		response, err := r.decode(msg.Data)
		if err != nil {
			_ = msg.Sub.Unsubscribe() // fails only if it has ended
			err = fmt.Errorf("a worker of tool %s has sent what is no answer to this call: %w", r.line.queue, err)
		}
		r.outcome <- outcome{response, err}
	}
}

// decode decodes the answer to a call, whose size is that of a result in the inbox of a session.
func (r *listener) decode(payload []byte) (*schemas.ToolResponse, error) {
	if len(payload) > schemas.MaxCommandBytes {
		return nil, fmt.Errorf("it has %d bytes, more than %d", len(payload), schemas.MaxCommandBytes)
	}
	r.line.decoding.Lock()
	defer r.line.decoding.Unlock()
	if r.ended.Load() { // while it waited
		return nil, errUnanswered
	}
	_, data, err := schemas.ParseCommand(schemas.CommandToolResult, payload)
	if err != nil {
		return nil, err
	}
	response, ok := data.(*schemas.ToolResponse)
	if !ok || response.Call != r.req.Call || !response.Answers(r.req.Nonce) {
		return nil, errors.New("it has another call or nonce")
	}
	return response, nil
}
