package bus

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/schemas"
)

// inboxSubscriber merges the partitions that a runner reads into one Watermill subscription. Messages of one partition come in
// the order in which they were received, and in that order they have their places in the lanes.
type inboxSubscriber struct {
	conn       *Conn
	keeper     Keeper          // nil: it keeps nothing
	stop       <-chan struct{} // closed when the runner is told to stop
	opts       InboxOptions
	stream     jetstream.Stream
	partitions int // how many there are
	batch      int // the most one partition asks for at once

	out      chan *message.Message
	hand     *inHand
	lanes    *lanes
	slots    slots
	outage   outage
	draining chan struct{}   // closed when nothing new is taken any more
	lost     context.Context // ends, with the cause, when the connection is gone for good
	lose     context.CancelCauseFunc

	others  atomic.Bool // other runners are live
	met     atomic.Bool // other runners have been live, and may be giving partitions back
	mu      sync.Mutex
	readers map[int]*partition
	wanted  map[int]bool
	stopped bool
	running sync.WaitGroup // readers and settlers; out is closed after them
	close   sync.Once
}

var _ message.Subscriber = (*inboxSubscriber)(nil)

func newInboxSubscriber(c *Conn, o InboxOptions) *inboxSubscriber {
	s := &inboxSubscriber{
		conn: c, opts: o, out: make(chan *message.Message), hand: newInHand(), lanes: newLanes(),
		slots: newSlots(o.MaxInHand), outage: outage{log: o.Logger}, draining: make(chan struct{}), readers: map[int]*partition{},
	}
	s.lost, s.lose = context.WithCancelCause(context.Background())
	return s
}

// Subscribe returns the one channel of messages; the topic is for the Router's records only. Which partitions are read
// is said by read.
func (s *inboxSubscriber) Subscribe(context.Context, string) (<-chan *message.Message, error) {
	return s.out, nil
}

// Close stops the reading and closes the channel once every message is settled.
func (s *inboxSubscriber) Close() error {
	s.stopReading()
	s.running.Wait()
	s.close.Do(func() { close(s.out) })
	return nil
}

// prepare finds the stream and makes the consumers that it lacks.
func (s *inboxSubscriber) prepare(ctx context.Context) error {
	var err error
	if s.partitions, err = Partitions(ctx, s.conn); err != nil {
		return err
	}
	if s.stream, err = s.conn.js.Stream(ctx, schemas.StreamCommands); err != nil {
		return fmt.Errorf("bus: inbox: stream %s: %w", schemas.StreamCommands, err)
	}
	// Every partition reserves what it asks for; all together may take half of the slots.
	s.batch = min(max(s.opts.MaxInHand/(2*s.partitions), 1), maxPullBatch)
	return s.ensureConsumers(ctx)
}

// meet is told how many other runners are live.
func (s *inboxSubscriber) meet(others int) {
	s.others.Store(others > 0)
	if others > 0 {
		s.met.Store(true)
	}
}

// read makes mine the partitions to be read. It starts readers and tells others to leave when they can; ctx is what the
// messages are handled under.
func (s *inboxSubscriber) read(ctx context.Context, mine []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return
	}
	s.wanted = make(map[int]bool, len(mine))
	for _, p := range mine {
		s.wanted[p] = true
		if s.readers[p] == nil {
			s.startReader(ctx, p)
		}
	}
	for n, p := range s.readers {
		p.wish(s.wanted[n])
	}
}

func (s *inboxSubscriber) startReader(ctx context.Context, n int) {
	p := newPartition(s, n)
	s.readers[n] = p
	s.running.Go(func() {
		p.read(ctx)
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.readers, n)
		if s.wanted[n] && !s.stopped { // it became ours again while it was leaving
			s.startReader(ctx, n)
		}
	})
}

// reading returns the partitions that have a reader, in order.
func (s *inboxSubscriber) reading() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.readers))
}

// stopReading hands all partitions over and returns when nothing comes any more.
func (s *inboxSubscriber) stopReading() {
	s.mu.Lock()
	if !s.stopped {
		s.stopped = true
		close(s.draining)
	}
	readers := slices.Collect(maps.Values(s.readers))
	s.mu.Unlock()
	for _, p := range readers {
		<-p.gone
	}
}

// take receives a message for which there is a slot and hands it to the Router.
func (s *inboxSubscriber) take(ctx context.Context, p *partition, raw jetstream.Msg) {
	md, err := raw.Metadata()
	if err != nil { // not a message of a consumer
		p.logger.Error("message without metadata", "subject", raw.Subject(), "err", err)
		s.slots.give(1)
		return
	}
	d := receive(ctx, p, raw, md)
	if s.hand.wasAcked(d) {
		// It is in the queue no more, unless that acknowledgement was lost. A session that it woke again would be awake with
		// nothing in the queue to wake it elsewhere.
		p.log(d, "acknowledge again", d.ack())
		d.cancel(nil)
		s.slots.give(1)
		return
	}
	session, _, _ := s.conn.subjects.ParseCommand(raw.Subject())
	if before := s.hand.silent(d.seq); before != nil {
		if s.keeps(ctx, session) {
			before.adopt(d)
			d.cancel(nil)
			s.slots.give(1)
			return
		}
		before.replace()
	}
	s.lanes.await(session, p.unheard(ctx, session, d.seq), s.opts.AckWait+unheardMargin)
	d.place = s.lanes.join(session, d.seq)
	if !s.hand.add(d) { // the first delivery's settlement counts for both
		d.cancel(nil)
		d.place.leave(0)
		s.slots.give(1)
		return
	}
	p.inHand.Add(1)
	s.running.Go(func() { s.settle(d) })
	s.out <- d.msg
}

// awaitLeft has what a runner that stops gives back wait until the partition has been left: before that the server would
// give it to this runner again.
func (s *inboxSubscriber) awaitLeft(p *partition) {
	if !isClosed(s.stop) {
		return
	}
	select {
	case <-p.left:
	case <-time.After(handoverTimeout):
	}
}

// keeps asks whether a session that is being worked on here is still its runner's own.
func (s *inboxSubscriber) keeps(ctx context.Context, session string) bool {
	if s.keeper == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	return s.keeper.Keeps(ctx, session)
}

// settle tells the server what became of a message. It is out of hand before that, because the server may send it
// again at once.
func (s *inboxSubscriber) settle(d *delivery) {
	defer d.cancel(nil)
	var err error
	var hold time.Duration
	select {
	case <-d.msg.Acked():
		if d.gone() {
			s.hand.remove(d)
		} else {
			s.hand.acknowledged(d)
		}
		err = d.ack()
	case <-d.msg.Nacked():
		s.hand.remove(d)
		delay := d.retryDelay()
		s.awaitLeft(d.partition)
		err = d.nak(delay)
		hold = delay + s.opts.AckWait
	}
	d.partition.log(d, "settle", err)
	d.place.leave(hold)
	d.partition.finished()
	s.slots.give(1)
}

func (s *inboxSubscriber) isDraining() bool { return isClosed(s.draining) }

// fail is told of an error of a pull. It reports whether there is any use in trying again.
func (s *inboxSubscriber) fail(err error) (again bool) {
	if errors.Is(err, nats.ErrConnectionClosed) {
		s.lose(fmt.Errorf("bus: inbox of runner %s: %w", s.opts.RunnerID, err))
		return false
	}
	return true
}

// unpin ends the pin of a partition.
func (s *inboxSubscriber) unpin(n int) error {
	ctx, cancel := context.WithTimeout(context.Background(), handoverTimeout)
	defer cancel()
	return s.stream.UnpinConsumer(ctx, consumerName(n), priorityGroup)
}

// pullExpiry renews the pin well before it ends.
func (s *inboxSubscriber) pullExpiry() time.Duration { return s.opts.PinnedTTL / 2 }
