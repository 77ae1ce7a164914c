package simulation_test

import (
	"context"
	"fmt"
	"slices"
)

// flight is a message in flight: received here and not settled. The inbox's lock guards what changes.
type flight struct {
	*message
	before <-chan struct{} // closed when an earlier flight of the message has ended; nil if there was none
	done   chan struct{}   // closed when this one has ended

	epoch   *epoch                  // that delivered it last
	ended   int                     // inbox.ended when the attempt under way began
	entered bool                    // the next of its session may be at work
	dropped bool                    // it is not this flight's to settle any more
	cancel  context.CancelCauseFunc // ends the attempt under way
}

// what names something that becomes of the message here.
func (f *flight) what(in *inbox, becomes string) string {
	return fmt.Sprintf("%s %d %s", in.name, f.seq, becomes)
}

// receive takes in a delivery of an epoch's consumer. It is called in the order of the deliveries.
func (in *inbox) receive(ep *epoch, d delivery) {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case ep != in.epoch || ep.stopped || ep.broken != nil:
		return // it comes again, to the next epoch
	case d.nth != ep.received+1:
		in.breakLocked(ep, errMissing)
		return
	}
	ep.received++
	f := in.flights[d.seq]
	if f != nil && !f.dropped { // it is in flight: only its settlement goes another way now
		f.epoch = ep
		delete(in.unsure, f)
		return
	}
	next := &flight{message: d.message, epoch: ep, done: make(chan struct{})}
	if f != nil {
		next.before = f.done
	} else {
		in.busy[next.partition]++
	}
	in.flights[next.seq] = next
	in.enqueue(next)
}

func (in *inbox) start(f *flight) { in.running.Go(func() { in.fly(in.work, f) }) }

// enqueue puts a flight behind those of its session and starts it if it is the first. mu is held.
func (in *inbox) enqueue(f *flight) {
	in.queues[f.cmd.Session] = append(in.queues[f.cmd.Session], f)
	if len(in.queues[f.cmd.Session]) == 1 {
		in.start(f)
	}
}

// enter lets the next message of the session in.
func (in *inbox) enter(f *flight) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.enterLocked(f)
}

func (in *inbox) enterLocked(f *flight) {
	if f.entered {
		return
	}
	f.entered = true
	q := in.queues[f.cmd.Session]
	at := slices.Index(q, f)
	q = slices.Delete(q, at, at+1)
	if len(q) == 0 {
		delete(in.queues, f.cmd.Session)
		return
	}
	in.queues[f.cmd.Session] = q
	if at == 0 && !isClosed(in.draining) {
		in.start(q[0])
	}
}

// land ends a flight.
func (in *inbox) land(f *flight) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.enterLocked(f)
	close(f.done)
	if in.unsure[f] {
		delete(in.unsure, f)
		in.ended++
	}
	if in.flights[f.seq] == f { // and no later one of the message
		in.forget(f)
	}
}

// forget takes a message out of those in flight. mu is held.
func (in *inbox) forget(f *flight) {
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
func (in *inbox) drop(f *flight) {
	f.dropped = true
	waits := !in.begun(f)
	in.note("%s: drops %d, %s", in.name, f.seq, f.cmd.ID)
	if f.cancel != nil {
		f.cancel(errMoved)
	}
	in.enterLocked(f)
	if waits { // it has not been started, so nobody else lands it
		close(f.done)
		delete(in.unsure, f)
		if in.flights[f.seq] == f {
			in.forget(f)
		}
	}
}

// restart cuts a flight off and begins the message anew, in its place. mu is held.
func (in *inbox) restart(f *flight) {
	if !in.begun(f) {
		return
	}
	in.note("%s: begins %d, %s, anew", in.name, f.seq, f.cmd.ID)
	next := &flight{message: f.message, epoch: f.epoch, entered: f.entered, before: f.done, done: make(chan struct{})}
	in.flights[f.seq] = next
	if !f.entered {
		in.queues[f.cmd.Session][0] = next
	}
	f.entered, f.dropped = true, true
	if f.cancel != nil {
		f.cancel(errMoved)
	}
	in.start(next)
}

// begun reports whether a flight has been started. mu is held.
func (in *inbox) begun(f *flight) bool { return f.entered || in.queues[f.cmd.Session][0] == f }
