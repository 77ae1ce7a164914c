package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	"github.com/loopbus/loopbus/bus/inbox/membership"
	"github.com/loopbus/loopbus/bus/inbox/reader"
	"github.com/loopbus/loopbus/schemas"
)

// handler processes the messages of the inbox. It is a [host.Host].
type handler interface {
	Deliver(ctx context.Context, c schemas.Command, entered func()) error
	Reject(ctx context.Context, session string, r schemas.CommandRejected) error
	Owns(ctx context.Context, session string) error
}

// inbox is the queue and the handler of a runner's [reader.Reader].
type inbox struct {
	*process
	handler handler
	work    context.Context // of deliveries
	reader  *reader.Reader
	reads   atomic.Pointer[reader.Consumer] // whose deliveries are received
}

func newInbox(p *process, h handler, work context.Context) *inbox {
	in := &inbox{process: p, handler: h, work: work}
	log := slog.New(slog.DiscardHandler)
	if p.trace != nil {
		log = slog.New(slog.NewTextHandler(in, &slog.HandlerOptions{ReplaceAttr: withoutTime}))
	}
	in.reader = reader.New(reader.Options{
		ID: p.name, HandoverWait: 5 * time.Second, StopTimeout: 10 * time.Second, MaxDeliver: 10,
		MaxSessions: 1 + newChance(p.seed).draw("places").IntN(4), MaxInFlight: 1 << 20, Queue: in, Handler: in, Logger: log,
		Members: membership.New(membership.Options{ID: p.name, Network: &network{p}, DeadAfter: time.Second, Logger: log}),
		Count:   func(string) {},
	})
	return in
}

func withoutTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == "took" {
		return slog.Attr{}
	}
	return a
}

// Write records the log lines of the inbox.
func (in *inbox) Write(line []byte) (int, error) {
	in.note("%s: %s", in.name, strings.TrimSpace(string(line)))
	return len(line), nil
}

// run reads until stop ends or the process dies.
func (in *inbox) run(stop context.Context) {
	ctx, cancel := context.WithCancel(stop)
	defer cancel()
	defer context.AfterFunc(in.ctx, cancel)()
	in.running.Go(func() {
		for {
			select {
			case <-in.again:
				in.reader.Break(nil, errors.New("the connection was lost"))
			case <-ctx.Done():
				return
			}
		}
	})
	if err := in.reader.Run(ctx, partitions); err != nil {
		in.note("%s: %v", in.name, err)
	}
}

func (in *inbox) Create(ctx context.Context, c *reader.Consumer) (backlog uint64, err error) {
	return ask(ctx, in.process, "create", func() (uint64, error) {
		if in.refused.Load() {
			return 0, errRefused
		}
		c.Clustered = true
		return in.queue.create(c.Name, c.Reads)
	})
}

func (in *inbox) Consume(c *reader.Consumer) error {
	in.reads.Store(c)
	return in.request(in.ctx, "consume", func() error { return in.queue.consume(c, in) })
}

func (in *inbox) Stop() { in.reads.Store(nil) }

// receive passes a delivery to the reader.
func (in *inbox) receive(c *reader.Consumer, d delivery) {
	if in.reads.Load() == c {
		m := &reader.Message{Seq: d.seq, Partition: d.partition, Session: d.cmd.Session, Body: &content{message: d.message},
			Urgent: d.cmd.Data.CommandKind() != schemas.CommandPrompt}
		in.reader.Receive(c, d.nth, m, fmt.Sprintf("%s %d", c.Name, d.seq))
	}
}

func (in *inbox) Delete(ctx context.Context, name string) (found bool, err error) {
	return ask(ctx, in.process, "delete", func() (bool, error) { return in.queue.remove(name, 0), nil })
}

func (in *inbox) Names(ctx context.Context) ([]string, error) {
	return ask(ctx, in.process, "names", func() ([]string, error) { return in.queue.names(), nil })
}

func (in *inbox) Reads(ctx context.Context, name string) ([]int, error) {
	return ask(ctx, in.process, "reads", func() ([]int, error) { return in.queue.reads(name) })
}

// Clear has nothing to remove: the simulated server delivers everything.
func (in *inbox) Clear() {}

func (in *inbox) Counts(ctx context.Context, name string) (delivered, settled uint64, err error) {
	i, err := ask(ctx, in.process, "info", func() (info, error) { return in.queue.info(name) })
	return i.delivered, i.settled, err
}

func (in *inbox) First(ctx context.Context, p reader.Place, after uint64) (uint64, error) {
	return ask(ctx, in.process, "first", func() (uint64, error) { return in.queue.first(p, after), nil })
}

func (in *inbox) Stored(ctx context.Context, c *reader.Consumer) (map[reader.Place]int, error) {
	return ask(ctx, in.process, "stored", func() (map[reader.Place]int, error) { return in.queue.stored(c.Reads), nil })
}

func (in *inbox) Ack(reply string) {
	var name string
	var seq uint64
	_, _ = fmt.Sscan(reply, &name, &seq)
	in.send(fmt.Sprintf("%s %d ack", in.name, seq), func() { in.queue.ack(name, seq, in.name) })
}

func (in *inbox) Refetch(ctx context.Context, m *reader.Message) (deleted bool) {
	deleted, err := ask(ctx, in.process, fmt.Sprintf("%d gone", m.Seq),
		func() (bool, error) { return !in.queue.has(m.Seq), nil })
	if err == nil && !deleted {
		m.Body.(*content).dropped = false
	}
	return err == nil && deleted
}

// content is the body of a message, as a runner has it.
type content struct {
	*message
	dropped bool // the payload, until Refetch
}

func (c *content) DropPayload() bool {
	c.dropped = true
	return true
}

// Deliver calls the handler. The process may be suspended before and after the call.
func (in *inbox) Deliver(ctx context.Context, m *reader.Message, entered func()) error {
	return in.between(ctx, m, func(ctx context.Context, stored *message) error {
		if stored.refusal != "" {
			return in.reject(ctx, m, schemas.RejectInvalid, stored.refusal)
		}
		return in.handler.Deliver(ctx, stored.cmd, entered)
	})
}

// Void always returns false: the sessions of all results in the simulation have a log.
func (in *inbox) Void(context.Context, *reader.Message) bool { return false }

func (in *inbox) Refuse(ctx context.Context, m *reader.Message, reason string) error {
	return in.GiveUp(ctx, m, reason)
}

func (in *inbox) GiveUp(ctx context.Context, m *reader.Message, reason string) error {
	return in.between(ctx, m, func(ctx context.Context, _ *message) error {
		return in.reject(ctx, m, schemas.RejectDelivery, reason)
	})
}

func (in *inbox) reject(ctx context.Context, m *reader.Message, code schemas.RejectCode, reason string) error {
	cmd := m.Body.(*content).cmd
	err := in.handler.Reject(ctx, cmd.Session, schemas.CommandRejected{
		CommandID: cmd.ID, Kind: cmd.Data.CommandKind(), Code: code, Reason: reason,
		InboxPosition: cmd.InboxPosition,
	})
	m.Rejected = err == nil
	return err
}

func (in *inbox) between(ctx context.Context, m *reader.Message, do func(context.Context, *message) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(in.work, func() { cancel(context.Cause(in.work)) })()
	what := func(becomes string) string { return fmt.Sprintf("%s %d %s", in.name, m.Seq, becomes) }
	if err := sleep(ctx, in.draw(what("enters")).between(1000, 100_000)); err != nil {
		return err
	}
	if err := in.pass(what("enters")); err != nil {
		return err
	}
	if m.Body.(*content).dropped {
		return errNoAnswer // from Refetch
	}
	err := do(ctx, m.Body.(*content).message)
	if err != nil {
		in.note("%s: could not deliver %d: %v", in.name, m.Seq, err)
	}
	time.Sleep(in.draw(what("settles")).between(1000, 100_000)) // so that a fault can hit several of them
	return errors.Join(err, in.pass(what("settles")))
}

func (in *inbox) Owns(ctx context.Context, session string) error {
	return in.handler.Owns(ctx, session)
}

// Attempt does not count attempts: no command of the simulation kills its runner.
func (in *inbox) Attempt(context.Context, uint64) (lost int, end func()) { return 0, func() {} }
