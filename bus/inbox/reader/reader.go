package reader

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/loopbus/loopbus/bus/inbox/admission"
	"github.com/loopbus/loopbus/bus/inbox/membership"
)

var (
	// ErrStopped is the cause with which a delivery is cancelled that has not returned in [Options.StopTimeout] after
	// Run was asked to stop.
	ErrStopped = fmt.Errorf("inbox: stopped: %w", context.Canceled)
	// ErrMoved is the cause with which a delivery is cancelled because another runner reads its partition now.
	ErrMoved = fmt.Errorf("inbox: another runner reads the partition now: %w", context.Canceled)
	// ErrOverlap is returned by [Queue.Create] while another runner's consumer has one of the partitions.
	ErrOverlap = errors.New("inbox: another runner's consumer has one of the partitions")
	// ErrConsumerNotFound is returned by [Queue.Counts] and [Queue.Reads] for a consumer that was deleted.
	ErrConsumerNotFound = errors.New("inbox: the consumer was deleted")
)

const (
	settleTime    = 100 * time.Millisecond // for deliveries to return before other runners take over
	cancelTimeout = time.Second            // between cancelling a delivery and no longer waiting for it
	leaveTimeout  = 2 * time.Second        // for deleting the consumer during shutdown
	checkEvery    = 15 * time.Second       // between two comparisons of counts with the server and of sessions with logs
)

// Queue is the work queue on the servers.
type Queue interface {
	// Create creates a consumer and returns how many messages are stored for it. Its error wraps [ErrOverlap] while the
	// consumer of another runner has one of the partitions.
	Create(ctx context.Context, c *Consumer) (backlog uint64, err error)
	// Consume calls [Reader.Receive] with the deliveries of the newest consumer, in their order, until Stop.
	Consume(c *Consumer) error
	Stop()
	// Delete deletes a consumer. From then on acknowledgements of its deliveries have no effect. found reports whether
	// the consumer existed.
	Delete(ctx context.Context, name string) (found bool, err error)
	// Names returns the names of all consumers.
	Names(ctx context.Context) ([]string, error)
	// Reads returns the partitions of a consumer. Its error is [ErrConsumerNotFound] if the consumer was deleted.
	Reads(ctx context.Context, name string) ([]int, error)
	// Counts returns how many messages a consumer has delivered, and how many of them were settled. Its error is
	// [ErrConsumerNotFound] if the consumer was deleted.
	Counts(ctx context.Context, name string) (delivered, settled uint64, err error)
	// First returns the sequence of the first message of a session that is stored behind the sequence after; 0 if there
	// is none, or if no consumer of this queue skips messages.
	First(ctx context.Context, p Place, after uint64) (seq uint64, err error)
	// Stored returns how many messages of each session are stored in the partitions of a consumer that has delivered
	// all that it knows of. It returns nil if the consumer has more to deliver, if no consumer of this queue skips
	// messages, or if there are too many messages to look at.
	Stored(ctx context.Context, c *Consumer) (map[Place]int, error)
	// Clear begins to remove messages that no consumer delivers. It does not wait.
	Clear()
	// Ack acknowledges the delivery with this reply subject. It does not wait for an answer.
	Ack(reply string)
	// Refetch reports whether a message was deleted from the stream. If it is still stored, Refetch reads the payload
	// again that [Body.DropPayload] has dropped.
	Refetch(ctx context.Context, m *Message) (deleted bool)
}

// Handler carries out messages.
type Handler interface {
	// Void reports whether a message can change nothing and has no outcome. Such a message is acknowledged undelivered.
	Void(ctx context.Context, m *Message) bool
	// Deliver returns once the session is at rest, or once another delivery drives it. It calls entered when the
	// message is in the session's log.
	Deliver(ctx context.Context, m *Message, entered func()) error
	// GiveUp rejects a message for good.
	GiveUp(ctx context.Context, m *Message, reason string) error
	// Refuse rejects a message for good, without its session.
	Refuse(ctx context.Context, m *Message, reason string) error
	// Owns returns nil if no other runner has extended a session at work, and a [schemas.ErrConflict] if one has. Any
	// other error means that this is not known.
	Owns(ctx context.Context, session string) error
	// Attempt counts the start of a message that a lost runner may have started before, and returns how many runners
	// were lost so. The Reader calls end if the attempt fails.
	Attempt(ctx context.Context, seq uint64) (lost int, end func())
}

// Options configure [New]. All fields are required.
type Options struct {
	ID           string // of the runner; its consumers are named ID_…
	Nonce        string // of the process, part of the names of its consumers
	HandoverWait time.Duration
	StopTimeout  time.Duration
	MaxDeliver   int
	MaxSessions  int
	MaxInFlight  int // what the queue delivers before something is settled
	Queue        Queue
	Handler      Handler
	Members      *membership.Membership
	Logger       *slog.Logger
	Count        func(outcome string) // counts one of the outcomes below
}

// Outcomes that [Options.Count] receives.
const (
	Takeover     = "takeover" // the share has changed, or a consumer was replaced
	Acknowledged = "acknowledged"
	Retried      = "retried"
	Refused      = "refused"
)

// Message is a message of the queue.
type Message struct {
	Seq       uint64 // in the stream
	Partition int
	Session   string // "" if the subject has no legal session id
	Urgent    bool   // it is admitted before messages that may start a run
	// Aborts is true of a message that ends a run. If it waits for some time behind messages of its session that Yield,
	// and are not in the log, it overtakes them: they may wait for memory, as long as the runs of others last.
	Aborts, Yields bool
	// Kind decides how many messages of a session keep their places where few are left.
	Kind Kind
	// Inherits is true of a message that the session may store without carrying it out. While an abort waits behind it,
	// the context of its delivery has the abort's priority (package priority). Once the message is in the log it has not.
	Inherits bool
	// Rejected is set by a Handler that has rejected the message for good: it is in the session's log and in the dead
	// letters. All that is left to do, on whichever runner, is to acknowledge it.
	Rejected bool
	Body     Body

	aside    func()
	raised   chan struct{} // closed once it has the priority of an abort behind it; nil unless it may inherit that
	isRaised bool
}

// Aside says that a message which is delivered has to wait for others of its kind: sessions that are not delayed start
// meanwhile, as if it had entered the log. It keeps its place among those at work.
func (m *Message) Aside() {
	if m.aside != nil {
		m.aside()
	}
}

// Place is where the messages of a session are stored.
type Place struct {
	Partition int
	Session   string
}

// Body is the content of a message, as the Queue and the Handler know it.
type Body interface {
	// DropPayload is called, with a lock held, if a message cannot start at once: tens of thousands of messages may
	// wait, half a megabyte each. It reports whether it has dropped anything. [Queue.Refetch] reads it again.
	DropPayload() bool
}

// A Reader reads the share of one runner. Its methods may be called concurrently.
type Reader struct {
	o        Options
	failures logLimit
	ready    chan struct{}
	setReady func()          // closes ready
	poke     chan struct{}   // has a token when the consumer has to be reconciled
	draining context.Context // ended by drain, with mu held; nothing starts afterwards
	drain    context.CancelFunc
	running  sync.WaitGroup        // deliveries and verifications
	share    share                 // used by the goroutine of Run alone
	sick     atomic.Pointer[error] // why the servers refuse consumers; nil if they do not

	// Set by Run.
	partitions int               // of the queue
	start      func(d *delivery) // processes a delivery in a goroutine
	work       context.Context   // of all deliveries

	mu         sync.Mutex
	gate       *admission.Gate
	consumer   *Consumer            // in use; nil while nothing is read
	deliveries map[uint64]*delivery // in flight, by stream sequence
	sessions   map[string]*session  // that have deliveries in flight, by key
	crowded    []*delivery          // to be refused, oldest first
	refusers   int                  // goroutines that do
}

// New returns a Reader that does nothing before [Reader.Run].
func New(o Options) *Reader {
	r := &Reader{
		o: o, ready: make(chan struct{}), poke: make(chan struct{}, 1),
		deliveries: map[uint64]*delivery{}, sessions: map[string]*session{}, share: share{lost: -1},
	}
	r.setReady = sync.OnceFunc(func() { close(r.ready) })
	r.draining, r.drain = context.WithCancel(context.Background())
	r.gate = admission.New(o.MaxSessions, func(d time.Duration) { time.AfterFunc(d, r.tick) })
	return r
}

// Ready is closed once the Reader reads its share for the first time.
func (r *Reader) Ready() <-chan struct{} { return r.ready }

// Partitions returns the partitions that are read now, in order; nil if there is no consumer.
func (r *Reader) Partitions() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.consumer == nil {
		return nil
	}
	return slices.Clone(r.consumer.Reads)
}

// Load returns how many messages are received and not settled, and how many of them wait for admission.
func (r *Reader) Load() (inFlight, waiting int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.deliveries), r.gate.Waiting()
}

// Run reads its share of the partitions until ctx ends. Then it hands the share to the other runners and waits for the
// deliveries at work. It returns nil if all of them have returned. Run may be called once.
func (r *Reader) Run(ctx context.Context, partitions int) error {
	work, kill := context.WithCancelCause(context.WithoutCancel(ctx))
	defer kill(nil)
	r.partitions, r.work = partitions, work
	r.start = (&pool{process: r.process, next: make(chan *delivery), running: &r.running, end: r.draining.Done()}).start

	member, leave := context.WithCancel(context.WithoutCancel(ctx))
	defer leave()
	joined, left := make(chan struct{}), make(chan error, 1)
	r.share.ability.pause = firstTrial
	r.setUnable(time.Now())
	go func() { left <- r.o.Members.Run(member, func() { close(joined) }) }()
	select {
	case <-joined:
		r.running.Go(func() { r.watchCrowds(r.draining) })
		r.read(ctx)
	case err := <-left:
		return err
	case <-ctx.Done():
	}
	return r.shutDown(ctx, func() error { leave(); return <-left }, kill)
}

// read reconciles the consumer with the share until ctx ends.
func (r *Reader) read(ctx context.Context) {
	check := time.NewTicker(checkEvery)
	defer check.Stop()
	made, pause, compare := 0, firstCompare, time.NewTimer(firstCompare)
	defer compare.Stop()
	for ctx.Err() == nil {
		again := r.reconcile(ctx)
		if made != r.share.made {
			made, pause = r.share.made, firstCompare
			compare.Reset(pause)
		}
		select {
		case <-ctx.Done():
		case <-r.o.Members.Changed():
		case <-r.poke:
		case <-again:
		case <-compare.C:
			r.checkSkipped(ctx)
			if pause *= 2; pause < checkEvery {
				compare.Reset(pause)
			}
		case <-check.C:
			r.check(ctx)
		}
	}
}

// shutDown lets deliveries that are about to return do so, deletes the consumer, so that the other runners take over at
// once, and waits for the remaining deliveries.
func (r *Reader) shutDown(ctx context.Context, leave func() error, kill context.CancelCauseFunc) error {
	r.mu.Lock()
	r.drain()
	r.mu.Unlock()
	ended := make(chan struct{})
	r.o.Queue.Stop()
	go func() { r.running.Wait(); close(ended) }()
	within(ended, settleTime)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	if _, err := r.deleteConsumer(ctx); err != nil {
		r.o.Logger.Warn("consumer not deleted, other runners will delete it", "err", err)
	}
	if err := leave(); err != nil {
		r.o.Logger.Warn("entry not removed from the list of runners", "err", err)
	}
	if within(ended, r.o.StopTimeout) {
		return nil
	}
	inFlight, _ := r.Load()
	r.o.Logger.Warn("commands did not end in time, cancelling them", "count", inFlight)
	kill(ErrStopped)
	if within(ended, cancelTimeout) {
		return nil
	}
	inFlight, _ = r.Load()
	return fmt.Errorf("inbox of runner %s: %d commands still at work", r.o.ID, inFlight)
}

// within reports whether c is closed before d has passed.
func within(c <-chan struct{}, d time.Duration) bool {
	select {
	case <-c:
		return true
	case <-time.After(d):
		return false
	}
}

func (r *Reader) isDraining() bool { return r.draining.Err() != nil }

// tick lets the gate admit messages that have waited for too long.
func (r *Reader) tick() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.isDraining() {
		r.gate.Tick(time.Now())
	}
}
