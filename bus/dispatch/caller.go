package dispatch

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/backlog"
	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// defaultLookEvery is the time between two checks whether a call without an answer is still in its queue.
const defaultLookEvery = 15 * time.Second

// withdrawTimeout bounds the requests for a call that its caller has given up, and those before the call is sent.
const withdrawTimeout = 5 * time.Second

var errClosed = errors.New("the caller is closed")

// errUnanswered is returned for a call that has left its queue without an answer.
var errUnanswered = errors.New("the outcome of this call is unknown: it is no longer in its tool's queue, and no " +
	"answer has come")

// CallerOptions configure [NewCaller].
type CallerOptions struct {
	// ID names the caller: a subject token that no other caller uses, at the same time or later.
	ID string
	// LookEvery is the time between two checks whether a call without an answer is still in its queue, default 15 s. A
	// call that is missing twice was answered while the connection was lost, or was lost itself.
	LookEvery time.Duration
}

// A Caller calls tools for programs that have no session. Its calls wait in the same queues as those of sessions and
// are executed by the same workers, but they are in no log: the answer of a call is sent to the caller, at a subject
// that only the workers of its tool know (agent.reply.<caller>.<nonce>), and a worker drops a call whose caller has
// left. The answers of each tool come by a connection of their own. Its methods may be called concurrently.
type Caller struct {
	conn     *bus.Conn
	o        CallerOptions
	dispatch *Dispatcher
	answers  *answers
	updates  *updates

	mu     sync.Mutex
	n      uint64
	closed bool
}

// NewCaller returns a Caller that calls tools until [Caller.Close]. c has to outlive it.
func NewCaller(c *bus.Conn, o CallerOptions) (*Caller, error) {
	o.LookEvery = cmp.Or(o.LookEvery, defaultLookEvery)
	if err := schemas.CheckToken("caller", o.ID); err != nil {
		return nil, fmt.Errorf("dispatch: caller %q: %w", o.ID, err)
	}
	return &Caller{conn: c, o: o, dispatch: New(c), answers: newAnswers(c), updates: newUpdates(c)}, nil
}

// Close ends the caller: a call that begins afterwards fails. Those under way get their answers, and no more partial
// results.
func (c *Caller) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.answers.close()
	c.updates.Close()
}

// Call executes a tool on a worker and returns the answer. session is a legal session id of the caller's choice that no
// runner drives; args have to satisfy the tool's parameters. Call passes partial results to update, which may be nil;
// while update runs, later results wait. When ctx ends, the call is withdrawn, or cancelled if a worker has it, and the
// error wraps ctx's cause. Any other error means that the call has no answer; it may have been executed.
func (c *Caller) Call(ctx context.Context, session string, def schemas.ToolDefinition, args json.RawMessage,
	update func(schemas.ToolResult),
) (*schemas.ToolResponse, error) {
	var response *schemas.ToolResponse
	req, err := c.begin(session, def, args)
	if err == nil {
		response, err = c.await(ctx, req, update)
	}
	if err != nil {
		return nil, fmt.Errorf("dispatch: call tool %s for caller %s: %w", def.Name, c.o.ID, err)
	}
	return response, nil
}

func (c *Caller) begin(session string, def schemas.ToolDefinition, args json.RawMessage) (schemas.ToolRequest, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return schemas.ToolRequest{}, errClosed
	}
	c.n++
	key, nonce := schemas.NewCallKey(c.n), rand.Text()[:16]
	return schemas.ToolRequest{
		Session: session, RunID: c.o.ID, Call: key, ToolCallID: string(key), ToolName: def.Name, Version: def.Version,
		Workspace: def.Workspace, Arguments: args, Effect: def.EffectClass(), TimeoutMs: def.TimeoutMs, StartSeq: c.n,
		ReplyTo: c.conn.Subjects().Reply(c.o.ID, nonce), Nonce: nonce, Revision: def.Revision,
	}, nil
}

// await makes a call, and listens for its answer meanwhile.
func (c *Caller) await(ctx context.Context, req schemas.ToolRequest, update func(schemas.ToolResult)) (
	*schemas.ToolResponse, error,
) {
	line := c.answers.join(req.Queue())
	defer c.answers.leave(line)
	opening, cancel := context.WithTimeout(ctx, withdrawTimeout)
	defer cancel()
	listener, err := line.listen(opening, req)
	if err != nil {
		return nil, fmt.Errorf("listen for the answer: %w", cmp.Or(context.Cause(ctx), err))
	}
	defer listener.close()
	return c.call(ctx, req, listener.outcome, update)
}

func (c *Caller) call(ctx context.Context, req schemas.ToolRequest, answer <-chan outcome,
	update func(schemas.ToolResult),
) (*schemas.ToolResponse, error) {
	var updates *backlog.Queue
	var more <-chan struct{}
	if update != nil {
		queue, end := c.updates.follow(ctx, req)
		defer end()
		updates, more = queue, queue.More()
	}
	if err := c.dispatch.Dispatch(ctx, req, false); err != nil {
		c.giveUp(req)
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	tick := time.NewTicker(c.o.LookEvery)
	defer tick.Stop()
	for gone := false; ; {
		select {
		case <-more:
			if showNext(updates, req, update); updates.Len() > 0 {
				updates.Wake()
			}
			continue
		case got := <-answer:
			if got.err != nil {
				c.giveUp(req)
				return nil, got.err
			}
			if updates != nil {
				c.updates.arrived(ctx)
				for range updates.Len() { // those that were sent before the answer
					showNext(updates, req, update)
				}
			}
			return got.response, nil
		case <-ctx.Done():
			c.giveUp(req)
			return nil, context.Cause(ctx)
		case <-tick.C:
		}
		there, err := c.queued(ctx, req)
		if err == nil && !there && gone && len(answer) == 0 {
			return nil, errUnanswered
		}
		gone = err == nil && !there
	}
}

// showNext passes the next partial result to update, if it is one of the call: other clients may publish on the subject
// too.
func showNext(updates *backlog.Queue, req schemas.ToolRequest, update func(schemas.ToolResult)) {
	msg := updates.Take()
	defer updates.Release()
	if msg == nil {
		return
	}
	u, err := schemas.DecodeUpdate(msg.Header, msg.Data)
	if err != nil {
		return
	}
	if data, ok := u.Data.(*schemas.ToolExecutionUpdate); ok && data.Call == req.Call {
		update(data.PartialResult)
	}
}

// giveUp withdraws a call and cancels it on the worker that has it.
func (c *Caller) giveUp(req schemas.ToolRequest) {
	ctx, cancel := context.WithTimeout(context.Background(), withdrawTimeout)
	defer cancel()
	// A worker that misses both checks whether the caller is live; see [Caller].
	_ = c.dispatch.Cancel(ctx, req.Session, req.Call, req.Nonce)
	_ = c.dispatch.Withdraw(ctx, req.Session, req.Call)
}

// queued reports whether a call waits for a worker or is being executed.
func (c *Caller) queued(ctx context.Context, req schemas.ToolRequest) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, withdrawTimeout)
	defer cancel()
	_, there, err := natsio.Last(ctx, c.conn.JetStream(), schemas.StreamTools, c.dispatch.subject(req))
	return there, err
}
