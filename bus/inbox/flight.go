package inbox

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/inbox/admission"
)

// flight is a message in flight: received here and not settled. What is guarded is guarded by the inbox's lock.
type flight struct {
	seq       uint64 // in the stream
	partition int
	session   string // "" if the message has no legal one
	queue     string // key of its queue
	stored    time.Time
	received  time.Time
	counted   bool              // a lost runner may have begun it
	before    <-chan struct{}   // closed when an earlier flight of the message has ended; nil if there was none
	done      chan struct{}     // closed when this one has ended
	ticket    *admission.Ticket // nil before it is asked for; guarded

	raw     jetstream.Msg           // the first delivery; may be a slim one, which is replaced with the lock held
	held    int                     // bytes of it that are counted; guarded
	msg     settler                 // the newest delivery, by which it is settled; guarded
	epoch   *epoch                  // that delivered it; guarded
	ended   int                     // Inbox.ended when the attempt under way began; guarded
	entered bool                    // the next of its session may be at work; guarded
	doubted bool                    // its session was lost while it waited; guarded
	dropped bool                    // it is not this flight's to settle any more; guarded
	cancel  context.CancelCauseFunc // ends the attempt under way; guarded
}

var errMissing = errors.New("a delivery is missing")

// receive takes in a delivery of an epoch's consumer. It is called in the order of the deliveries.
func (in *Inbox) receive(ep *epoch, msg jetstream.Msg) {
	md, err := msg.Metadata()
	if err != nil {
		in.o.Logger.Error("message without metadata", "subject", msg.Subject(), "err", err)
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case ep != in.epoch || ep.broken != nil:
		return // it comes again, to the next epoch
	case md.Sequence.Consumer != ep.received+1:
		in.breakLocked(ep, errMissing)
		return
	}
	ep.received++
	f := in.flights[md.Sequence.Stream]
	if f != nil && !f.dropped { // it is in flight: only its settlement goes another way now
		f.msg, f.epoch = in.settles(msg), ep
		delete(in.unsure, f)
		return
	}
	next := in.newFlight(ep, msg, md)
	if f != nil {
		next.before = f.done
	} else {
		in.busy[next.partition]++
	}
	in.flights[next.seq] = next
	in.enqueue(next)
}

func (in *Inbox) newFlight(ep *epoch, msg jetstream.Msg, md *jetstream.MsgMetadata) *flight {
	f := &flight{
		seq: md.Sequence.Stream, stored: md.Timestamp, received: time.Now(), msg: in.settles(msg), epoch: ep,
		done:      make(chan struct{}),
		partition: partitionOf(in.conn.Subjects(), msg.Subject()),
		counted:   ep.suspect && ep.received <= ep.waiting,
	}
	in.keep(f, msg, md)
	f.session, _, _ = in.conn.Subjects().ParseCommand(msg.Subject())
	if f.queue = f.session; f.queue == "" {
		f.queue = "." + strconv.FormatUint(f.seq, 10) // no session to keep an order for
	}
	return f
}

// enqueue puts a flight behind those of its session and starts it if it is the first. mu is held.
func (in *Inbox) enqueue(f *flight) {
	in.queues[f.queue] = append(in.queues[f.queue], f)
	if len(in.queues[f.queue]) == 1 {
		in.start(f)
	}
}

// enter lets the next message of the session in.
func (in *Inbox) enter(f *flight) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.enterLocked(f)
}

func (in *Inbox) enterLocked(f *flight) {
	if f.entered {
		return
	}
	f.entered = true
	in.hasEntered(f)
	q := in.queues[f.queue]
	at := slices.Index(q, f)
	q = slices.Delete(q, at, at+1)
	if len(q) == 0 {
		delete(in.queues, f.queue)
		return
	}
	in.queues[f.queue] = q
	if at == 0 && !in.isDraining() {
		in.start(q[0])
	}
}

// land ends a flight.
func (in *Inbox) land(f *flight) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.enterLocked(f)
	in.hasEnded(f)
	close(f.done)
	if _, unsure := in.unsure[f]; unsure {
		delete(in.unsure, f)
		in.ended++
	}
	if in.flights[f.seq] == f { // and no later one of the message
		in.forget(f)
	}
}

// forget takes a message out of those in flight. mu is held.
func (in *Inbox) forget(f *flight) {
	delete(in.flights, f.seq)
	if in.busy[f.partition]--; in.busy[f.partition] == 0 {
		delete(in.busy, f.partition)
		if in.epoch != nil && in.epoch.leaving[f.partition] {
			in.look() // the partition is idle now
		}
	}
}

// drop cuts a flight off: another runner may have the message. Delivered again, it begins when this one has ended. mu
// is held.
func (in *Inbox) drop(f *flight, cause error) {
	f.dropped = true
	waits := !in.begun(f)
	if !waits {
		in.o.Logger.Info("session left to another runner", "session", f.session, "seq", f.seq)
	}
	if f.cancel != nil {
		f.cancel(cause)
	}
	in.enterLocked(f)
	if waits { // it has not been started, so nobody else lands it
		in.hasEnded(f)
		close(f.done)
		delete(in.unsure, f)
		if in.flights[f.seq] == f {
			in.forget(f)
		}
	}
}

// restart cuts a flight off and begins the message anew, in its place. mu is held.
func (in *Inbox) restart(f *flight, cause error) {
	if !in.begun(f) {
		return
	}
	next := &flight{
		seq: f.seq, partition: f.partition, session: f.session, queue: f.queue, stored: f.stored, entered: f.entered,
		received: f.received, raw: f.raw, msg: f.msg, epoch: f.epoch, before: f.done, done: make(chan struct{}),
	}
	in.flights[f.seq] = next
	if !f.entered {
		in.queues[f.queue][0] = next
	}
	f.entered, f.dropped = true, true
	if f.cancel != nil {
		f.cancel(cause)
	}
	in.start(next)
}

// begun reports whether a flight has been started. mu is held.
func (in *Inbox) begun(f *flight) bool {
	return !f.waits() && (f.entered || in.queues[f.queue][0] == f)
}

func (in *Inbox) isDraining() bool {
	select {
	case <-in.draining:
		return true
	default:
		return false
	}
}
