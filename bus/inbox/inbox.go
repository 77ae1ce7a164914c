package inbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/inbox/admission"
	"github.com/loopbus/loopbus/bus/inbox/membership"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/schemas"
)

var (
	// ErrStopped is the cause with which a delivery is cut off that has not ended in time after the inbox was told to
	// stop.
	ErrStopped = fmt.Errorf("inbox: stopped: %w", context.Canceled)
	// ErrMoved is the cause with which a delivery is cut off because another runner reads its partition now.
	ErrMoved = fmt.Errorf("inbox: another runner reads the partition now: %w", context.Canceled)
)

const (
	restTime      = 100 * time.Millisecond // that handlers get to end before the others take over
	cutOffTimeout = time.Second            // between the end of a handler's context and giving it up
	leaveTimeout  = 2 * time.Second        // of the requests that hand the partitions over
)

// Inbox reads one runner's share of the inbox. It is bounded by [Options.MaxInFlight].
type Inbox struct {
	conn     *bus.Conn
	o        Options
	members  *membership.Membership
	attempts *attempts
	metrics  *metrics

	complaints complaints
	maxHeld    int // bytes
	ready      chan struct{}
	once       sync.Once

	// Set by run, before anything is delivered.
	stream     jetstream.Stream
	partitions int
	handler    Handler
	start      func(f *flight) // flies it in a goroutine

	poke     chan struct{} // has a token when the share has to be looked at again
	draining chan struct{} // closed when nothing new is begun any more
	running  sync.WaitGroup

	mu      sync.Mutex
	gate    *admission.Gate
	epoch   *epoch               // the consumer in use; nil while nothing is read
	flights map[uint64]*flight   // in flight, by sequence in the stream
	queues  map[string][]*flight // of each session: those that have not entered, in order; the first is at work
	busy    map[int]int          // flights by partition
	held    int                  // bytes of what is in flight
	// Flights that the consumer in use has not delivered: another runner may have settled them. ended counts those that
	// have ended so.
	unsure map[*flight]struct{}
	ended  int
}

// New returns an inbox on c, which stays the caller's and has to outlive it. The streams have to be there (see
// [streams.Setup]). It does nothing before [Inbox.Run].
func New(c *bus.Conn, o Options) (*Inbox, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	in := &Inbox{
		conn: c, o: o, maxHeld: maxHeld, attempts: newAttempts(c, o.MaxDeliver, o.Logger), ready: make(chan struct{}),
		members: membership.New(membership.Options{
			ID: o.RunnerID, NATS: c.NATS(), JetStream: c.JetStream(), Subjects: c.Subjects(), DeadAfter: o.Takeover,
			Logger: o.Logger,
		}),
		poke: make(chan struct{}, 1), draining: make(chan struct{}),
		flights: map[uint64]*flight{}, queues: map[string][]*flight{}, busy: map[int]int{}, unsure: map[*flight]struct{}{},
	}
	in.gate = in.newGate()
	in.metrics = newMetrics(o.Registerer, in.InFlight, in.waiting)
	return in, nil
}

// Ready is closed once the inbox reads its share for the first time.
func (in *Inbox) Ready() <-chan struct{} { return in.ready }

// Partitions returns the partitions it reads at this moment, in order.
func (in *Inbox) Partitions() []int {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.epoch == nil {
		return nil
	}
	return slices.Clone(in.epoch.reads)
}

// Runners are the ids of the runners that this one takes for live, itself included, sorted.
func (in *Inbox) Runners() []string { return in.members.View().IDs }

// Health returns nil while the runner can write to the servers (see [membership.Membership.Health]). Before
// [Inbox.Ready] it says nothing of use.
func (in *Inbox) Health() error { return in.members.Health() }

// InFlight returns how many messages are received and not settled at this moment.
func (in *Inbox) InFlight() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.flights)
}

// Run serves until ctx ends and then shuts down gracefully: it begins nothing new, hands its partitions to the other
// runners at once, and waits up to StopTimeout for the handlers at work. A handler that should hand its session over
// has to be told so by the caller, by the same signal. Nil means that all handlers have ended. Run may be called once.
func (in *Inbox) Run(ctx context.Context, h Handler) error {
	err := errors.New("inbox: was run before")
	in.once.Do(func() { err = in.run(ctx, h) })
	return err
}

func (in *Inbox) run(ctx context.Context, h Handler) (err error) {
	if in.partitions, err = streams.Partitions(ctx, in.conn); err != nil {
		return err
	}
	if in.stream, err = in.conn.JetStream().Stream(ctx, schemas.StreamCommands); err != nil {
		return fmt.Errorf("inbox: stream %s: %w", schemas.StreamCommands, err)
	}
	work, kill := context.WithCancelCause(context.WithoutCancel(ctx))
	defer kill(nil)
	in.handler = h
	in.start = in.admitted((&crew{
		fly: func(f *flight) { in.fly(work, f) }, next: make(chan *flight), running: &in.running, end: in.draining,
	}).start)

	heartbeats, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer leave()
	joined := make(chan struct{})
	var living sync.WaitGroup
	defer living.Wait()
	var liveErr error
	died := make(chan struct{})
	living.Go(func() {
		defer close(died)
		liveErr = in.members.Run(heartbeats, func() { close(joined) })
	})
	defer leave()
	select {
	case <-joined:
		err = in.own(ctx)
	case <-died:
		return liveErr
	case <-ctx.Done():
	}
	return errors.Join(err, in.drain(ctx, kill))
}

// own keeps the consumer what it has to be until ctx ends. Its error says that the connection is gone for good.
func (in *Inbox) own(ctx context.Context) error {
	status := in.conn.NATS().StatusChanged(nats.CONNECTED, nats.CLOSED)
	defer in.conn.NATS().RemoveStatusListener(status)
	check := time.NewTicker(checkEvery)
	defer check.Stop()
	var last counted
	c := &claims{in: in}
	defer c.abandon()
	for {
		again := c.reconcile(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-in.members.Changed():
		case <-in.poke:
		case <-again:
		case <-check.C:
			last = in.check(ctx, last)
		case s := <-status:
			if s == nats.CLOSED {
				return fmt.Errorf("inbox of runner %s: %w", in.o.RunnerID, nats.ErrConnectionClosed)
			}
			in.breakEpoch(nil, errors.New("the connection was lost"))
		}
	}
}

// drain gives everything to the others. They take over at once; what is being settled at this moment may be settled.
func (in *Inbox) drain(ctx context.Context, kill context.CancelCauseFunc) error {
	in.mu.Lock()
	close(in.draining) // nothing is admitted any more
	in.mu.Unlock()
	in.stopReading()
	ended := make(chan struct{})
	go func() { in.running.Wait(); close(ended) }()
	within(ended, restTime)
	if !in.conn.NATS().IsClosed() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
		defer cancel()
		if _, err := in.deleteOwn(ctx); err != nil {
			in.o.Logger.Warn("consumer not deleted; the others will do it", "err", err)
		}
		if err := in.members.Leave(ctx); err != nil {
			in.o.Logger.Warn("leaving the live runners", "err", err)
		}
	}
	if within(ended, in.o.StopTimeout) {
		return nil
	}
	in.o.Logger.Warn("commands did not end in time, cutting them off", "count", in.InFlight())
	kill(ErrStopped)
	if within(ended, cutOffTimeout) {
		return nil
	}
	return fmt.Errorf("inbox of runner %s: %d commands still at work", in.o.RunnerID, in.InFlight())
}

// within reports whether a channel is closed before d has passed.
func within(c <-chan struct{}, d time.Duration) bool {
	timeout := time.NewTimer(d)
	defer timeout.Stop()
	select {
	case <-c:
		return true
	case <-timeout.C:
		return false
	}
}

// look has the share looked at again.
func (in *Inbox) look() {
	select {
	case in.poke <- struct{}{}:
	default:
	}
}
