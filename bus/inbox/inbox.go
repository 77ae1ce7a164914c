package inbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/inbox/membership"
	"github.com/loopbus/loopbus/bus/inbox/reader"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/schemas"
)

var (
	// ErrStopped is the cause with which a delivery is cut off that has not ended in time after the inbox was told to
	// stop.
	ErrStopped = reader.ErrStopped
	// ErrMoved is the cause with which a delivery is cut off because another runner reads its partition now.
	ErrMoved = reader.ErrMoved
)

// Inbox reads one runner's share of the inbox. It is bounded by [Options.MaxInFlight].
type Inbox struct {
	conn     *bus.Conn
	o        Options
	members  *membership.Membership
	reader   *reader.Reader
	attempts *attempts
	metrics  *metrics
	once     sync.Once

	// Set by run, before anything is delivered.
	stream  jetstream.Stream
	handler Handler
	// The consumer made last, and what it delivers. The reader's own goroutine uses both.
	consumer  jetstream.Consumer
	consuming jetstream.ConsumeContext
}

// New returns an inbox on c, which stays the caller's and has to outlive it. The streams have to be there (see
// [streams.Setup]). It does nothing before [Inbox.Run].
func New(c *bus.Conn, o Options) (*Inbox, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	in := &Inbox{
		conn: c, o: o, attempts: newAttempts(c, o.MaxDeliver, o.Logger),
		members: membership.New(membership.Options{
			ID: o.RunnerID, DeadAfter: o.Takeover, Logger: o.Logger,
			Network: membership.NewNATS(c.NATS(), c.JetStream(), c.Subjects(), o.RunnerID),
		}),
	}
	in.reader = reader.New(reader.Options{
		ID: o.RunnerID, Nonce: rand.Text(), HandoverWait: o.HandoverWait, StopTimeout: o.StopTimeout,
		MaxDeliver: o.MaxDeliver, MaxSessions: o.MaxSessions, Queue: queue{in}, Handler: handler{in}, Members: in.members,
		Logger: o.Logger, Count: func(outcome string) { in.metrics.count(outcome) },
	})
	in.metrics = newMetrics(o.Registerer, in.reader.Load)
	return in, nil
}

// Ready is closed once the inbox reads its share for the first time.
func (in *Inbox) Ready() <-chan struct{} { return in.reader.Ready() }

// Partitions returns the partitions it reads at this moment, in order.
func (in *Inbox) Partitions() []int { return slices.Clone(in.reader.Partitions()) }

// Runners are the ids of the runners that this one takes for live, itself included, sorted.
func (in *Inbox) Runners() []string { return in.members.View().IDs }

// Health returns nil while the runner can write to the servers (see [membership.Membership.Health]). Before
// [Inbox.Ready] it says nothing of use.
func (in *Inbox) Health() error { return in.members.Health() }

// InFlight returns how many messages are received and not settled at this moment.
func (in *Inbox) InFlight() int {
	n, _ := in.reader.Load()
	return n
}

// Run serves until ctx ends and then shuts down gracefully: it begins nothing new, hands its partitions to the other
// runners at once, and waits up to StopTimeout for the handlers at work. A handler that should hand its session over
// has to be told so by the caller, by the same signal. Nil means that all handlers have ended. Run may be called once.
func (in *Inbox) Run(ctx context.Context, h Handler) error {
	err := errors.New("inbox: was run before")
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
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	closed := make(chan error, 1)
	go func() { defer stop(); closed <- in.watchConnection(ctx) }()
	swept := make(chan struct{})
	go func() { defer close(swept); in.sweep(ctx) }()
	err = in.reader.Run(ctx, partitions)
	stop()
	<-swept
	return errors.Join(<-closed, err)
}

// watchConnection has the inbox read anew when the connection was lost. Its error says that it is gone for good.
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
