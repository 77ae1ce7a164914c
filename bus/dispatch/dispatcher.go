package dispatch

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/codec"
	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// Dispatcher stores tool calls for the workers and cancels them. Its methods may be called concurrently.
type Dispatcher struct {
	conn     *bus.Conn
	patience time.Duration // how long to wait for an unavailable server
}

// New returns a Dispatcher on c, which the caller keeps and which has to outlive it.
func New(c *bus.Conn) *Dispatcher { return &Dispatcher{c, natsio.AwayTimeout} }

// Dispatch stores a call in its tool's queue. An error wraps [schemas.ErrSubject] if the tool's name, version or
// workspace, the session or the call is no legal subject token; after any other error the call may have been stored. If
// again is true, an earlier process may have dispatched the call: Dispatch then stores nothing if the call is still in
// its queue or its result is in the session's inbox. A result that has left the inbox is in the session's log, where
// the caller has to have looked for it.
func (d *Dispatcher) Dispatch(ctx context.Context, req schemas.ToolRequest, again bool) error {
	if err := d.dispatch(ctx, req, again); err != nil {
		return fmt.Errorf("dispatch: dispatch call %s of session %s to tool %q: %w", req.Call, req.Session, req.Queue(), err)
	}
	return nil
}

func (d *Dispatcher) dispatch(ctx context.Context, req schemas.ToolRequest, again bool) error {
	err := errors.Join(req.Queue().Check(), schemas.CheckSession(req.Session),
		schemas.CheckToken("call", string(req.Call)))
	if err != nil {
		return err
	}
	if again {
		if held, err := d.held(ctx, req); held || err != nil {
			return err
		}
	}
	data, err := schemas.Marshal(req)
	if err != nil {
		return err
	}
	if room := d.conn.NATS().MaxPayload() - natsio.HeaderRoom; int64(len(data)) > room {
		return fmt.Errorf("%w: the call has %d bytes, and a message takes %d", schemas.ErrTooLarge, len(data), room)
	}
	msg := nats.NewMsg(d.subject(req))
	msg.Data = data
	// The stream drops a second copy of the message for as long as a runner's connection can outlive its suspension
	// (toolDuplicateWindow of package streams). The id differs from that of the tool's next call.
	msg.Header.Set(jetstream.MsgIDHeader, req.IdempotencyKey())
	msg.Header.Set(schemas.HeaderDispatch, cmp.Or(req.Nonce, "-"))
	if req.TraceParent != "" {
		msg.Header.Set(codec.HeaderTraceParent, req.TraceParent)
	}
	return d.publish(ctx, req, msg)
}

// publish stores a call on the connection without a reconnect buffer: a call must not be sent long after it was
// decided, when its session may have another runner. While the server is unavailable or the stream has no leader,
// publish retries, for d.patience at most. It does not if an acknowledgement is lost: a server that has restarted does
// not know the id of a call that a worker has settled, and an unsafe call would be executed twice. The next process
// that loads the session looks for the call or its result first.
func (d *Dispatcher) publish(ctx context.Context, req schemas.ToolRequest, msg *nats.Msg) error {
	ctx, cancel := context.WithTimeout(ctx, d.patience)
	defer cancel()
	for {
		ack, err := d.conn.Events().PublishMsg(ctx, msg, natsio.UntilLeader())
		if err == nil && ack.Duplicate {
			return d.duplicate(ctx, req, msg, ack.Sequence)
		}
		if !errors.Is(err, nats.ErrReconnectBufExceeded) || !natsio.Wait(ctx, natsio.RetryWait) {
			return err
		}
	}
}

// duplicate compares a call with the message that the stream has stored with its id. If that is another message,
// another client has used the id, and duplicate stores the call with a new one. A message that is not stored any more
// was this call, dispatched by an earlier process and settled by a worker: no other client knows its nonce. Another
// process or version may have encoded the same call in another way: its span is another one, for example.
func (d *Dispatcher) duplicate(ctx context.Context, req schemas.ToolRequest, msg *nats.Msg, seq uint64) error {
	stored, found, err := natsio.At(ctx, d.conn.JetStream(), schemas.StreamTools, seq)
	switch {
	case err != nil:
		return fmt.Errorf("look up message %d of %s, which has the call's id: %w", seq, schemas.StreamTools, err)
	case !found:
		return nil
	case stored.Subject == msg.Subject && (bytes.Equal(stored.Data, msg.Data) || req.Nonce != "" && isCall(req, stored)):
		return nil
	}
	msg.Header.Set(jetstream.MsgIDHeader, msg.Header.Get(jetstream.MsgIDHeader)+"/"+rand.Text())
	_, err = d.conn.Events().PublishMsg(ctx, msg, natsio.UntilLeader())
	return err
}

func (d *Dispatcher) subject(req schemas.ToolRequest) string {
	return d.conn.Subjects().Tool(req.Queue().Name(), req.Session, string(req.Call))
}

// Cancel tells the worker that executes the call with this nonce to stop. The message is sent once and not stored: the
// log decides whether the call has ended.
func (d *Dispatcher) Cancel(_ context.Context, session string, call schemas.CallKey, nonce string) error {
	err := errors.Join(schemas.CheckSession(session), schemas.CheckToken("call", string(call)))
	if err == nil {
		err = d.conn.NATS().Publish(d.conn.Subjects().Cancel(session, string(call)), []byte(schemas.Cancellation(nonce)))
	}
	if err != nil {
		return fmt.Errorf("dispatch: cancel call %s of session %s: %w", call, session, err)
	}
	return nil
}

// Withdraw removes a call from its tool's queue. If a worker has the call, it is not redelivered when that worker is
// lost.
func (d *Dispatcher) Withdraw(ctx context.Context, session string, call schemas.CallKey) error {
	err := errors.Join(schemas.CheckSession(session), schemas.CheckToken("call", string(call)))
	if err == nil {
		err = d.purge(ctx, d.conn.Subjects().Tool("*", session, string(call)))
	}
	if err != nil {
		return fmt.Errorf("dispatch: withdraw call %s of session %s: %w", call, session, err)
	}
	return nil
}

func (d *Dispatcher) purge(ctx context.Context, subject string) error {
	ctx, cancel := context.WithTimeout(ctx, natsio.AwayTimeout)
	defer cancel()
	stream, err := d.conn.JetStream().Stream(ctx, schemas.StreamTools)
	if err != nil {
		return err
	}
	return stream.Purge(ctx, jetstream.WithPurgeSubject(subject))
}
