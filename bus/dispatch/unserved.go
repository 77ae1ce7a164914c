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
	unservedChecks  = 4 // of the queues in the time that a call may wait
	unservedBatch   = 100
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
// pulls the calls from the tool's queue, as a worker would, and answers each with an error. Any number of them may run
// at once: each call is delivered to only one.
type Unserved struct {
	conn   *bus.Conn
	o      UnservedOptions
	absent map[schemas.ToolQueue]time.Time // since when no worker announces a tool
}

// NewUnserved returns an Unserved on c, which the caller keeps and which has to outlive it.
func NewUnserved(c *bus.Conn, o UnservedOptions) *Unserved {
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return &Unserved{conn: c, o: o, absent: map[schemas.ToolQueue]time.Time{}}
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
		if err := u.drain(ctx, tool); err != nil {
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

// drain pulls the calls of a tool's queue and answers them.
func (u *Unserved) drain(ctx context.Context, tool schemas.ToolQueue) error {
	ctx, cancel := context.WithTimeout(ctx, unservedRequest)
	defer cancel()
	queue, err := u.conn.JetStream().Consumer(ctx, schemas.StreamTools, tool.Name())
	if err != nil {
		return err
	}
	for {
		batch, err := queue.FetchNoWait(unservedBatch)
		if err != nil {
			return err
		}
		n := 0
		for msg := range batch.Messages() {
			n++
			if err := u.settle(ctx, msg, tool); err != nil {
				return err
			}
		}
		if n < unservedBatch {
			return batch.Error()
		}
	}
}

// settle answers a call, unless it has not waited long enough.
func (u *Unserved) settle(ctx context.Context, msg jetstream.Msg, tool schemas.ToolQueue) error {
	md, err := msg.Metadata()
	if err != nil {
		return err
	}
	if rest := u.o.After - time.Since(md.Timestamp); rest > 0 {
		return msg.NakWithDelay(rest)
	}
	_, session, call, err := u.conn.Subjects().ParseTool(msg.Subject())
	if err != nil {
		return err
	}
	text := fmt.Sprintf("no worker serves tool %s", tool)
	req, err := schemas.ParseToolRequest(msg.Data())
	if err != nil { // the caller knows the call by the subject
		req = schemas.ToolRequest{Session: session, Call: schemas.CallKey(call), ToolName: tool.Tool}
	}
	if md.NumDelivered > 1 && !req.Effect.Repeatable() {
		text = schemas.TextOutcomeUnknown
	}
	if err := u.answer(ctx, req, text); err != nil {
		return err
	}
	u.o.Logger.Warn("tool call failed, no worker serves the tool", "tool", tool.String(), "session", session, "call", call,
		"waited", time.Since(md.Timestamp).Round(time.Second))
	return msg.DoubleAck(ctx)
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
	ack, err := u.conn.JetStream().Publish(ctx, subject, data, jetstream.WithMsgID(id))
	if err == nil && ack.Duplicate { // maybe of another client's message; the session accepts one answer of any number
		_, err = u.conn.JetStream().Publish(ctx, subject, data, jetstream.WithMsgID(id+"/"+rand.Text()))
	}
	return err
}
