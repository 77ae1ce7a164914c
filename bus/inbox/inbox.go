package inbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/inbox/membership"
	"github.com/loopbus/loopbus/bus/inbox/reader"
	"github.com/loopbus/loopbus/bus/shares"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/schemas/turns"
)

var (
	// ErrStopped is the cause with which a delivery is cancelled that has not returned in [Options.StopTimeout] after
	// the inbox was asked to stop.
	ErrStopped = reader.ErrStopped
	// ErrMoved is the cause with which a delivery is cancelled because another runner reads its partition now.
	ErrMoved = reader.ErrMoved
)

// Inbox reads one runner's share of the inbox. Its methods may be called concurrently.
type Inbox struct {
	conn     *bus.Conn
	o        Options
	members  *membership.Membership
	reader   *reader.Reader
	attempts *attempts
	metrics  *metrics
	once     sync.Once
	searches *shares.Shares       // for outcomes
	inputs   *turns.Turns[string] // bytes of inputs by reference, and their descriptions

	swept uint64 // below this sequence the stream has no message left that no consumer delivers

	replicated atomic.Bool // the stream, when the newest consumer was created
	clearing   atomic.Bool // a search for messages that are not delivered is under way

	name atomic.Pointer[string] // of the stream for ids of commands; set before anything is delivered

	// Set by run, before anything is delivered.
	stream        jetstream.Stream
	handler       Handler
	life          context.Context // of searches
	work          sync.WaitGroup  // searches
	stopConsuming func()          // from the newest consumer; only the goroutine of the reader's Run uses it
}

// New returns an inbox that does nothing before [Inbox.Run]. The caller keeps c, which has to outlive the inbox, and
// has to create the streams first (see [streams.Setup]). The error names every option that is not valid.
func New(c *bus.Conn, o Options) (*Inbox, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	in := &Inbox{
		conn: c, o: o, attempts: newAttempts(c, o.MaxDeliver, o.Logger), searches: shares.New(maxSearches),
		inputs: turns.New[string](maxInputs),
		members: membership.New(membership.Options{
			ID: o.RunnerID, DeadAfter: o.Takeover, Logger: o.Logger,
			Network: membership.NewNATS(c.NATS(), c.JetStream(), c.Subjects(), o.RunnerID),
		}),
	}
	in.reader = reader.New(reader.Options{
		ID: o.RunnerID, Nonce: rand.Text(), HandoverWait: o.HandoverWait, StopTimeout: o.StopTimeout,
		MaxDeliver: o.MaxDeliver, MaxSessions: o.MaxSessions, Queue: queue{in}, Handler: handler{in}, Members: in.members,
		MaxInFlight: o.MaxInFlight, Logger: o.Logger, Count: func(outcome string) { in.metrics.count(outcome) },
	})
	in.metrics = newMetrics(o.Registerer, in.reader.Load)
	return in, nil
}

// Ready is closed once the inbox reads its share for the first time.
func (in *Inbox) Ready() <-chan struct{} { return in.reader.Ready() }

// Partitions returns the partitions that it reads now, in order. The caller owns the slice.
func (in *Inbox) Partitions() []int { return in.reader.Partitions() }

// Runners returns the sorted ids of the runners that this one considers live, its own included.
func (in *Inbox) Runners() []string { return in.members.View().IDs }

// Health returns nil while the runner can write to the servers (see [membership.Membership.Health]) and read its share
// of the inbox (see [reader.Reader.Health]). It is meaningful only after [Inbox.Ready].
func (in *Inbox) Health() error { return errors.Join(in.members.Health(), in.reader.Health()) }

// InFlight returns how many messages are received and not settled now.
func (in *Inbox) InFlight() int {
	n, _ := in.reader.Load()
	return n
}

// Run delivers commands to h until ctx ends and then shuts down gracefully: it starts no more deliveries, leaves its
// partitions to the other runners at once, and waits up to StopTimeout for the deliveries at work. It does not cancel
// these: a caller whose handler should stop early has to tell it so when it ends ctx. Nil means that all deliveries
// have returned. Run may be called once.
func (in *Inbox) Run(ctx context.Context, h Handler) error {
	err := errors.New("inbox: Run was called before")
	in.once.Do(func() { err = in.run(ctx, h) })
	return err
}

func (in *Inbox) run(ctx context.Context, h Handler) error {
	partitions, err := streams.Partitions(ctx, in.conn)
	if err != nil {
		return err
	}
	if in.stream, err = in.conn.JetStream().Stream(ctx, schemas.StreamCommands); err != nil {
		return fmt.Errorf("inbox: stream %s: %w", schemas.StreamCommands, err)
	}
	in.handler = h
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	in.life = life
	defer in.work.Wait()
	defer end()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	closed := make(chan error, 1)
	go func() { defer stop(); closed <- in.watchConnection(ctx) }()
	var sweeper sync.WaitGroup
	sweeper.Go(func() { in.sweep(ctx) })
	err = in.reader.Run(ctx, partitions)
	stop()
	sweeper.Wait()
	return errors.Join(<-closed, err)
}

// watchConnection has the consumer replaced after every lost connection. Its error means that the connection was
// closed.
func (in *Inbox) watchConnection(ctx context.Context) error {
	status := in.conn.NATS().StatusChanged(nats.CONNECTED, nats.CLOSED)
	defer in.conn.NATS().RemoveStatusListener(status)
	for {
		select {
		case <-ctx.Done():
			return nil
		case s := <-status:
			if s == nats.CLOSED {
				return fmt.Errorf("inbox of runner %s: %w", in.o.RunnerID, nats.ErrConnectionClosed)
			}
			in.reader.Break(nil, errors.New("the connection was lost"))
		}
	}
}
