package simulation_test

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// The times of the inbox, as they are by default (package inbox).
const (
	restTime     = 100 * time.Millisecond
	checkEvery   = 15 * time.Second
	minReconcile = 20 * time.Millisecond
	maxReconcile = time.Second
	gatherTime   = 100 * time.Millisecond
	handoverWait = 5 * time.Second
	keepLimit    = 4 * time.Second
)

var (
	errMoved      = errors.Join(errors.New("another runner reads the partition now"), context.Canceled)
	errShared     = errors.New("another runner has read some of the partitions too")
	errMissing    = errors.New("a delivery is missing")
	errConnection = errors.New("the connection was lost")
)

// handler takes what arrives in the inbox: a [driver.Host].
type handler interface {
	Deliver(ctx context.Context, c schemas.Command, entered func()) error
	Reject(ctx context.Context, session string, r schemas.CommandRejected) error
	Owns(ctx context.Context, session string) bool
}

// inbox is a runner's side of the queue. It does what package inbox does, by the same names.
type inbox struct {
	*process
	handler handler
	work    context.Context // of what is delivered
	members *membership

	poke     chan struct{} // has a token when the share has to be looked at again
	draining chan struct{} // closed when nothing new is begun any more
	running  sync.WaitGroup

	mu      sync.Mutex
	made    int // epochs
	epoch   *epoch
	flights map[uint64]*flight
	queues  map[string][]*flight // of each session: those that have not entered, in order; the first is at work
	busy    map[int]int          // flights by partition
	unsure  map[*flight]bool     // those that the consumer in use has not delivered: another runner may have settled them
	ended   int                  // of the unsure ones
}

func newInbox(p *process, h handler, work context.Context) *inbox {
	return &inbox{
		process: p, handler: h, work: work, members: newMembership(p),
		poke: make(chan struct{}, 1), draining: make(chan struct{}),
		flights: map[uint64]*flight{}, queues: map[string][]*flight{}, busy: map[int]int{}, unsure: map[*flight]bool{},
	}
}

// run serves until stop ends, and then drains; it returns early when the process dies.
func (in *inbox) run(stop context.Context) {
	ctx, cancel := context.WithCancel(stop)
	defer cancel()
	defer context.AfterFunc(in.ctx, cancel)()
	heartbeats, leave := context.WithCancel(in.ctx)
	joined := make(chan struct{})
	var living sync.WaitGroup
	defer living.Wait()
	living.Go(func() { in.members.run(heartbeats, func() { close(joined) }) })
	defer leave()
	select {
	case <-joined:
		in.own(ctx)
	case <-ctx.Done():
	}
	in.drain()
}

// own keeps the consumer what it has to be until ctx ends.
func (in *inbox) own(ctx context.Context) {
	check := time.NewTicker(checkEvery)
	defer check.Stop()
	var last checked
	c := &claims{in: in}
	for in.pass("reconcile") == nil {
		again := c.reconcile(ctx)
		select {
		case <-ctx.Done():
			return
		case <-in.members.changed:
		case <-in.poke:
		case <-again:
		case <-check.C:
			last = in.check(ctx, last)
		case <-in.again:
			in.breakEpoch(nil, errConnection)
		}
	}
}

// drain gives everything to the others.
func (in *inbox) drain() {
	close(in.draining)
	in.stopReading()
	ended := make(chan struct{})
	go func() { in.running.Wait(); close(ended) }()
	within(ended, restTime)
	_, _ = in.deleteOwn(in.ctx)
	in.members.leave()
	<-ended
}

func within(c <-chan struct{}, d time.Duration) {
	select {
	case <-c:
	case <-time.After(d):
	}
}

// look has the share looked at again.
func (in *inbox) look() {
	select {
	case in.poke <- struct{}{}:
	default:
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
