package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

var (
	errGivenBack = errors.New("another runner reads the partition")
	errLapsed    = errors.New("no sign of life was given for too long")
)

// handler takes what arrives in the inbox: a [driver.Host].
type handler interface {
	Deliver(ctx context.Context, c schemas.Command, entered func()) error
	Reject(ctx context.Context, session string, r schemas.CommandRejected) error
}

// inbox is a runner's side of the queue: it reads the runner's share of the partitions, lets the commands of each session
// in in order, and tells the server of all that it has in hand.
type inbox struct {
	*process
	host handler
	work context.Context // of what is delivered

	mu       sync.Mutex
	readers  map[int]*reader
	wanted   map[int]bool
	hand     map[uint64]*delivery
	lanes    map[string]*lane
	draining bool
	empty    chan struct{} // closed when nothing is in hand and it is draining
	running  sync.WaitGroup
}

// delivery is a message in hand.
type delivery struct {
	*reader
	seq     uint64
	cmd     schemas.Command
	refusal string
	count   int
	called  chan struct{} // closed when it is its turn
	asked   time.Time     // when it was asked for, then when the last sign of life but one was sent
	told    time.Time     // when the last one was
	work    context.Context
	end     context.CancelCauseFunc
}

func newInbox(p *process, host handler, work context.Context) *inbox {
	return &inbox{process: p, host: host, work: work, readers: map[int]*reader{}, wanted: map[int]bool{},
		hand: map[uint64]*delivery{}, lanes: map[string]*lane{}, empty: make(chan struct{})}
}

// run serves until stop ends, and then drains; it returns early when the process dies.
func (in *inbox) run(stop context.Context) {
	in.running.Go(in.beat)
	for stop.Err() == nil && in.pass("join") == nil {
		live, err := ask(stop, in.process, "join", func() ([]string, error) { return in.queue.join(in.name), nil })
		if err == nil {
			in.read(share(in.name, live))
		}
		_ = sleep(stop, memberTTL/4+in.draw(in.name+" beat").latency())
	}
	in.drain()
	in.running.Wait()
}

// share is what falls to a runner by rendezvous hashing.
func share(name string, live []string) map[int]bool {
	mine := map[int]bool{}
	for n := range partitions {
		weight := func(runner string) uint64 { return hash(runner + string(rune('0'+n))) }
		best := slices.MaxFunc(live, func(a, b string) int {
			if weight(a) < weight(b) {
				return -1
			}
			return 1
		})
		if best == name {
			mine[n] = true
		}
	}
	return mine
}

// read makes mine the partitions to be read.
func (in *inbox) read(mine map[int]bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.wanted = mine
	for n := range partitions {
		rd := in.readers[n]
		if rd == nil && mine[n] && !in.draining {
			rd = in.start(n)
		}
		if rd != nil && rd.wanted != mine[n] {
			rd.wanted, rd.late = mine[n], time.Now().Add(handoverWait)
			rd.nudge()
		}
	}
}

// start begins to read a partition. The caller holds the lock.
func (in *inbox) start(n int) *reader {
	rd := &reader{inbox: in, n: n, wanted: true, over: make(chan struct{}), news: make(chan struct{}, 1)}
	in.readers[n] = rd
	in.running.Go(rd.run)
	return rd
}

// drain gives everything to the others and waits for what is at work.
func (in *inbox) drain() {
	in.mu.Lock()
	in.draining = true
	readers := slices.Collect(maps.Values(in.readers))
	if len(in.hand) == 0 {
		close(in.empty)
	}
	in.mu.Unlock()
	in.send("part", func() { in.queue.part(in.name) })
	for _, rd := range readers {
		rd.nudge()
	}
	select {
	case <-in.empty:
	case <-in.ctx.Done():
	}
}

// beat tells the server of all in hand until the process dies or has drained.
func (in *inbox) beat() {
	tick := time.NewTicker(ackWait / 3)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-in.empty:
			return
		case <-in.ctx.Done():
			return
		}
		if in.pass("beat") != nil {
			return
		}
		for _, seq := range in.held() {
			in.send(fmt.Sprintf("alive %d", seq), func() { in.queue.alive(seq) })
		}
	}
}

// held returns what is in hand, and ends what is so no longer: while this process was suspended the server has given it
// to another one.
func (in *inbox) held() (seqs []uint64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, seq := range slices.Sorted(maps.Keys(in.hand)) {
		d := in.hand[seq]
		if d.lapsed() {
			d.end(errLapsed)
			continue
		}
		d.asked, d.told = d.told, time.Now()
		seqs = append(seqs, seq)
	}
	return seqs
}

// what names something that becomes of the message here.
func (d *delivery) what(becomes string) string {
	return fmt.Sprintf("%s %d %s", d.name, d.seq, becomes)
}

// lapsed reports whether the server may have given the message to another runner. The last sign of life may be lost.
func (d *delivery) lapsed() bool { return time.Since(d.asked) > ackWait }

// take receives a message.
func (in *inbox) take(d *delivery) {
	earlier := in.queue.before(d.cmd.Session, d.seq)
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.hand[d.seq] != nil { // what becomes of the first delivery counts for both
		return
	}
	if d.lapsed() {
		return
	}
	if in.draining || isClosed(d.over) {
		in.send(fmt.Sprintf("nak %d", d.seq), func() { in.queue.nak(d.seq, 0) })
		return
	}
	earlier = slices.DeleteFunc(earlier, func(seq uint64) bool { return in.hand[seq] != nil })
	in.hand[d.seq] = d
	d.inHand++
	d.called = make(chan struct{})
	d.work, d.end = context.WithCancelCause(in.work)
	l := in.lanes[d.cmd.Session]
	if l == nil {
		l = &lane{in: in}
		in.lanes[d.cmd.Session] = l
	}
	l.join(d, earlier)
	in.running.Go(func() { in.settle(d, l, in.handle(d, l)) })
}

// handle waits for a message's turn and delivers it.
func (in *inbox) handle(d *delivery, l *lane) error {
	select {
	case <-d.called:
	case <-d.over:
		return errGivenBack
	case <-d.work.Done():
		return context.Cause(d.work)
	}
	if err := sleep(d.work, in.draw(d.what("enters")).between(1000, 100_000)); err != nil {
		return err
	}
	if err := in.pass(d.what("enters")); err != nil {
		return err
	}
	if isClosed(d.over) {
		return errGivenBack
	}
	if d.refusal != "" {
		return in.host.Reject(d.work, d.cmd.Session, schemas.CommandRejected{
			CommandID: d.cmd.ID, Kind: d.cmd.Data.CommandKind(), Code: schemas.RejectInvalid, Reason: d.refusal, StreamSeq: d.seq,
		})
	}
	return in.host.Deliver(d.work, d.cmd, func() {
		in.mu.Lock()
		defer in.mu.Unlock()
		l.enter(d)
	})
}

// settle tells the server what became of a message.
func (in *inbox) settle(d *delivery, l *lane, err error) {
	defer d.end(nil)
	time.Sleep(in.draw(d.what("settles")).between(1000, 100_000)) // what fails one may fail several
	if in.pass(d.what("settles")) != nil {
		return
	}
	var delay time.Duration
	if d.count > 1 && !isClosed(d.over) {
		delay = 250 * time.Millisecond << min(d.count-2, 4)
	}
	in.mu.Lock()
	delete(in.hand, d.seq)
	if len(in.hand) == 0 && in.draining {
		close(in.empty)
	}
	if d.inHand--; d.inHand == 0 {
		d.nudge()
	}
	l.settle(d, err != nil, delay+waitForEarlier)
	lapsed := d.lapsed()
	in.mu.Unlock()
	if lapsed {
		in.note("%s: %d, %s, has gone to another runner: %v", in.name, d.seq, d.cmd.ID, err)
		return
	}
	if err == nil {
		in.send(fmt.Sprintf("ack %d", d.seq), func() { in.queue.ack(d.seq, in.name) })
		return
	}
	in.note("%s: gives back %d, %s: %v", in.name, d.seq, d.cmd.ID, err)
	in.send(fmt.Sprintf("nak %d", d.seq), func() { in.queue.nak(d.seq, delay) })
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
