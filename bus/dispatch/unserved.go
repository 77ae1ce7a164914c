package dispatch

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/bus/registry"
	"github.com/loopbus/loopbus/schemas"
)

const (
	unservedChecks  = 4               // of the queues in the time that a call may wait
	unservedRequest = 5 * time.Second // for one request to the server
)

// UnservedOptions configure [NewUnserved].
type UnservedOptions struct {
	ID      string        // of the runner, named in the answers
	After   time.Duration // how long a call waits while no worker announces its tool
	Toolbox *registry.Toolbox
	Logger  *slog.Logger // nil discards
}

// Unserved answers calls of tools that no worker serves. If a tool was not announced for [UnservedOptions.After], it
// pulls the calls from the tool's queue that are as old, as a worker would, and answers each with an error. Any number
// of them may run at once: each call is delivered to only one.
type Unserved struct {
	conn   *bus.Conn
	o      UnservedOptions
	absent map[schemas.ToolQueue]time.Time // since when no worker announces a tool
	pulled map[uint64]uint64               // how often u has pulled a call and not settled it, by its sequence
}

// NewUnserved returns an Unserved on c, which the caller keeps and which has to outlive it.
func NewUnserved(c *bus.Conn, o UnservedOptions) *Unserved {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return &Unserved{conn: c, o: o, absent: map[schemas.ToolQueue]time.Time{}, pulled: map[uint64]uint64{}}
}

// Run checks the queues periodically until ctx ends. A failure is logged, and retried at the next check.
func (u *Unserved) Run(ctx context.Context) {
	for natsio.Wait(ctx, max(u.o.After/unservedChecks, time.Millisecond)) {
		if err := u.check(ctx); err != nil && ctx.Err() == nil {
			u.o.Logger.Warn("unserved tool calls not answered", "err", err)
		}
	}
}

// check answers the calls of all unserved queues. It goes on after the error of a queue.
func (u *Unserved) check(ctx context.Context) error {
	listing, cancel := context.WithTimeout(ctx, unservedRequest)
	defer cancel()
	announced, err := u.o.Toolbox.Announced(listing)
	if err != nil {
		return err
	}
	loads, err := QueueLoads(listing, u.conn)
	if err != nil {
		return err
	}
	var errs []error
	for _, load := range loads {
		tool := load.Queue
		if announced[tool] {
			delete(u.absent, tool)
			continue
		}
		if !u.longAbsent(tool) || load.Waiting == 0 && load.AtWork == 0 {
			continue
		}
		if err := u.drain(ctx, load); err != nil {
			errs = append(errs, fmt.Errorf("dispatch: tool %q: %w", tool, err))
		}
	}
	return errors.Join(errs...)
}

// longAbsent reports whether no worker has announced a tool for as long as its calls may wait.
func (u *Unserved) longAbsent(tool schemas.ToolQueue) bool {
	if u.absent[tool].IsZero() {
		u.absent[tool] = time.Now()
	}
	return time.Since(u.absent[tool]) >= u.o.After
}

// drain pulls the calls of a tool's queue that have waited long enough, one at a time, and answers them. A worker would
// take a delivery to a runner for one to a worker that was lost. So drain looks at the next call before it pulls, and
// pulls nothing while that call is too young. A call that waits to be delivered again comes before those.
func (u *Unserved) drain(ctx context.Context, load QueueLoad) error {
	queue, err := u.consumer(ctx, load.Queue)
	if err != nil {
		return err
	}
	for {
		next, found, err := u.oldest(ctx, load)
		if err != nil {
			return err
		}
		if found && u.young(next.Time, load) || !found && load.AtWork == 0 {
			return nil
		}
		batch, err := queue.FetchNoWait(1)
		if err != nil {
			return err
		}
		msg := <-batch.Messages()
		if msg == nil {
			return batch.Error()
		}
		md, err := msg.Metadata()
		if err != nil {
			return err
		}
		load.delivered = max(load.delivered, md.Sequence.Stream)
		if settled, err := u.settle(ctx, msg, md, load); !settled || err != nil {
			return err
		}
	}
}

func (u *Unserved) consumer(ctx context.Context, tool schemas.ToolQueue) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, unservedRequest)
	defer cancel()
	return u.conn.JetStream().Consumer(ctx, schemas.StreamTools, tool.Name())
}

// oldest returns the oldest call of a queue that was never delivered.
func (u *Unserved) oldest(ctx context.Context, load QueueLoad) (natsio.Stored, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, unservedRequest)
	defer cancel()
	calls := u.conn.Subjects().Tool(load.Queue.Name(), "*", "*")
	return natsio.Next(ctx, u.conn.JetStream(), schemas.StreamTools, calls, load.delivered+1)
}

// young reports whether a call that was stored at a time has not waited long enough. Both times are of the server.
func (u *Unserved) young(stored time.Time, load QueueLoad) bool {
	return load.at.Sub(stored) < u.o.After
}

// settle answers a call. It returns a call that is too young to its queue, and false: a worker died with it, or another
// client has pulled an older one meanwhile. But it answers an unsafe one, which no worker would execute any more.
func (u *Unserved) settle(ctx context.Context, msg jetstream.Msg, md *jetstream.MsgMetadata, load QueueLoad) (bool,
	error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), natsio.AwayTimeout)
	defer cancel()
	_, session, call, err := u.conn.Subjects().ParseTool(msg.Subject())
	if err != nil {
		return false, err
	}
	req, err := schemas.ParseToolRequest(msg.Data())
	if err != nil { // the caller knows the call by the subject
		req = schemas.ToolRequest{Session: session, Call: schemas.CallKey(call), ToolName: load.Queue.Tool}
	}
	if req.Effect.Repeatable() && u.young(md.Timestamp, load) {
		return false, msg.Nak()
	}
	text := fmt.Sprintf("no worker serves tool %s", load.Queue)
	u.pulled[md.Sequence.Stream]++
	if md.NumDelivered > u.pulled[md.Sequence.Stream] && !req.Effect.Repeatable() {
		text = schemas.TextOutcomeUnknown
	}
	if err := u.answer(ctx, req, text); err != nil {
		return false, err
	}
	u.o.Logger.Warn("tool call failed, no worker serves the tool", "tool", load.Queue.String(), "session", session,
		"call", call, "waited", load.at.Sub(md.Timestamp).Round(time.Second))
	err = msg.DoubleAck(ctx)
	if err == nil {
		delete(u.pulled, md.Sequence.Stream)
	}
	return err == nil, err
}

func (u *Unserved) answer(ctx context.Context, req schemas.ToolRequest, text string) error {
	data, err := schemas.Marshal(req.Answer(u.o.ID, schemas.ErrorResult(text), true, 0))
	if err != nil {
		return err
	}
	if req.ReplyTo != "" && u.conn.Subjects().CheckReply(req.ReplyTo) == nil {
		return u.conn.NATS().Publish(req.ReplyTo, data)
	}
	subject, id := u.conn.Subjects().Command(req.Session, schemas.CommandToolResult), req.AnswerMsgID()
	ack, err := u.conn.JetStream().Publish(ctx, subject, data, jetstream.WithMsgID(id), natsio.UntilLeader())
	if err == nil && ack.Duplicate { // maybe of another client's message; the session accepts one answer of any number
		_, err = u.conn.JetStream().Publish(ctx, subject, data, jetstream.WithMsgID(id+"/"+rand.Text()),
			natsio.UntilLeader())
	}
	return err
}
