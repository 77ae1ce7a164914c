package reader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/loopbus/loopbus/bus/inbox/admission"
	"github.com/loopbus/loopbus/bus/inbox/membership"
)

var (
	// ErrStopped is the cause with which a delivery is cut off that has not ended in time after Run was told to stop.
	ErrStopped = fmt.Errorf("inbox: stopped: %w", context.Canceled)
	// ErrMoved is the cause with which a delivery is cut off because another runner reads its partition now.
	ErrMoved = fmt.Errorf("inbox: another runner reads the partition now: %w", context.Canceled)
	// ErrOverlap is what [Queue.Create] fails with while another runner's consumer has one of the partitions.
	ErrOverlap = errors.New("inbox: another runner's consumer has one of the partitions")
	// ErrGone says of a consumer that it does not exist any more.
	ErrGone = errors.New("inbox: the consumer is gone")
)

const (
	restTime      = 100 * time.Millisecond // that deliveries get to end before the others take over
	cutOffTimeout = time.Second            // between the end of a delivery's context and giving it up
	leaveTimeout  = 2 * time.Second        // of deleting the consumer on the way out
	checkEvery    = 15 * time.Second       // the counts are compared with the server's, and sessions with their logs
)

// Queue is the work queue on the servers.
type Queue interface {
	// Create makes a consumer, and returns how many messages wait for it. It fails with [ErrOverlap].
	Create(ctx context.Context, c *Consumer) (waiting uint64, err error)
	// Consume has [Reader.Receive] called with the deliveries of the consumer made last, in their order, until Stop.
	Consume(c *Consumer) error
	Stop()
	// Delete deletes a consumer. From then on its acknowledgements have no effect. found is false if there is none.
	Delete(ctx context.Context, name string) (found bool, err error)
	// Names are those of all consumers.
	Names(ctx context.Context) ([]string, error)
	// Counts are how many messages a consumer has delivered, and how many of them were settled. It fails with [ErrGone].
	Counts(ctx context.Context, name string) (delivered, settled uint64, err error)
	// Ack acknowledges a delivery without waiting for an answer.
	Ack(settle string)
	// Gone reports whether a message is stored no more. Of one that is, it reads again what was let go.
	Gone(ctx context.Context, m *Message) bool
}

// Handler does what messages ask for.
type Handler interface {
	// Deliver returns once the session is at rest, or another delivery drives it; entered says that the message is stored.
	Deliver(ctx context.Context, m *Message, entered func()) error
	// GiveUp rejects a message for good.
	GiveUp(ctx context.Context, m *Message, reason string) error
	// Owns returns nil if no other runner has extended a session at work, and a [schemas.ErrConflict] if one has.
	Owns(ctx context.Context, session string) error
	// Attempt counts that a message is begun which a lost runner may have begun, and returns how many were lost so. The
	// Reader calls end if the attempt fails.
	Attempt(ctx context.Context, seq uint64) (lost int, end func())
}

// Options configure [New]. All of them are needed.
type Options struct {
	ID           string // of the runner; consumers are named ID_…
	Nonce        string // of the process, for the names of its consumers
	HandoverWait time.Duration
	StopTimeout  time.Duration
	MaxDeliver   int
	MaxSessions  int
	Queue        Queue
	Handler      Handler
	Members      *membership.Membership
	Logger       *slog.Logger
	Count        func(outcome string) // one of those below
}

// What is counted.
const (
	Takeover     = "takeover" // a change of the share, or a new beginning
	Acknowledged = "acknowledged"
	Retried      = "retried"
)

// Message is one of the queue.
type Message struct {
	Seq       uint64 // in the stream
	Partition int
	Session   string // "" if it has no legal one
	Presses   bool   // it goes before those that may begin a run
	Body      Body   // what the Queue and the Handler know of it
}

// Body is the content of a message.
type Body interface {
	// LetGo is called with a lock held if the message has to wait before it begins: the queue may have tens of thousands
	// of them, half a megabyte each. It reports whether anything was let go, which [Queue.Gone] then reads again.
	LetGo() bool
}

// A Reader reads one runner's share. Its methods may be called concurrently.
type Reader struct {
	o          Options
	complaints complaints
	ready      chan struct{}
	poke       chan struct{}   // has a token when the consumer has to be looked at again
	draining   context.Context // ended by drainNow, with mu held, when nothing new is begun any more
	drainNow   context.CancelFunc
	running    sync.WaitGroup // flights, and what asks about sessions
	claims     claims         // of the goroutine of Run

	// Set by Run.
	partitions int             // of the queue
	start      func(f *flight) // has a flight carried out in a goroutine
	work       context.Context // of all deliveries

	mu       sync.Mutex
	gate     *admission.Gate
	consumer *Consumer           // in use; nil while nothing is read
	flights  map[uint64]*flight  // by sequence in the stream
	sessions map[string]*session // of these
}

// New returns a Reader that does nothing before [Reader.Run].
func New(o Options) *Reader {
	r := &Reader{
		o: o, ready: make(chan struct{}), poke: make(chan struct{}, 1),
		flights: map[uint64]*flight{}, sessions: map[string]*session{}, claims: claims{lost: -1},
	}
	r.draining, r.drainNow = context.WithCancel(context.Background())
	r.gate = admission.New(o.MaxSessions, func(d time.Duration) { time.AfterFunc(d, r.hurry) })
	return r
}

// Ready is closed once the share is read for the first time.
func (r *Reader) Ready() <-chan struct{} { return r.ready }

// Partitions are those that are read at this moment, in order. They must not be changed.
func (r *Reader) Partitions() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.consumer == nil {
		return nil
	}
	return r.consumer.Reads
}

// Load is how many messages are received and not settled, and how many sessions wait to be admitted.
func (r *Reader) Load() (inFlight, waiting int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.flights), r.gate.Waiting()
}

// Run reads a queue of so many partitions until ctx ends, then hands everything to the others, and waits for the
// deliveries at work. Nil means that all have ended. It may be called once.
func (r *Reader) Run(ctx context.Context, partitions int) error {
	work, kill := context.WithCancelCause(context.WithoutCancel(ctx))
	defer kill(nil)
	r.partitions, r.work = partitions, work
	r.start = (&pool{fly: r.fly, next: make(chan *flight), running: &r.running, end: r.draining.Done()}).start

	living, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	joined, left := make(chan struct{}), make(chan error, 1)
	go func() { left <- r.o.Members.Run(living, func() { close(joined) }) }()
	select {
	case <-joined:
		r.own(ctx)
	case err := <-left:
		return err
	case <-ctx.Done():
	}
	return r.drain(ctx, func() error { cancel(); return <-left }, kill)
}

// own keeps the consumer what it has to be until ctx ends.
func (r *Reader) own(ctx context.Context) {
	check := time.NewTicker(checkEvery)
	defer check.Stop()
	for ctx.Err() == nil {
		again := r.reconcile(ctx)
		select {
		case <-ctx.Done():
		case <-r.o.Members.Changed():
		case <-r.poke:
		case <-again:
		case <-check.C:
			r.check(ctx)
		}
	}
}

// drain gives everything to the others. They take over at once; what is being settled at this moment may be settled.
func (r *Reader) drain(ctx context.Context, leave func() error, kill context.CancelCauseFunc) error {
	r.mu.Lock()
	r.drainNow() // nothing is admitted any more
	r.mu.Unlock()
	ended := make(chan struct{})
	r.o.Queue.Stop()
	go func() { r.running.Wait(); close(ended) }()
	within(ended, restTime)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	if _, err := r.deleteOwn(ctx); err != nil {
		r.o.Logger.Warn("consumer not deleted; the others will do it", "err", err)
	}
	if err := leave(); err != nil {
		r.o.Logger.Warn("leaving the live runners", "err", err)
	}
	if within(ended, r.o.StopTimeout) {
		return nil
	}
	inFlight, _ := r.Load()
	r.o.Logger.Warn("commands did not end in time, cutting them off", "count", inFlight)
	kill(ErrStopped)
	if within(ended, cutOffTimeout) {
		return nil
	}
	inFlight, _ = r.Load()
	return fmt.Errorf("inbox of runner %s: %d commands still at work", r.o.ID, inFlight)
}

// within reports whether a channel is closed before d has passed.
func within(c <-chan struct{}, d time.Duration) bool {
	select {
	case <-c:
		return true
	case <-time.After(d):
		return false
	}
}

func (r *Reader) isDraining() bool { return r.draining.Err() != nil }

// hurry has the gate look whether somebody has waited for too long.
func (r *Reader) hurry() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.isDraining() {
		r.gate.Hurry(time.Now())
	}
}
