package reader

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/loopbus/loopbus/bus/inbox/admission"
)

// session is the messages of one that are in flight here. The Reader's lock guards it.
type session struct {
	name      string // "" if its message has no legal one: then there is no order to keep
	key       string // in Reader.sessions
	partition int
	// flights are in the order in which they are begun. Those that have entered come first; of the others at most the
	// first is at work.
	flights []*flight
	doubted bool // another runner may have extended it
	ending  int  // flights of before it was left that have not ended; nothing begins while there are any
	// lost counts the flights that have ended without having been delivered by the consumer in use.
	lost   int
	ctx    context.Context // of its deliveries
	cutOff context.CancelCauseFunc
}

// flight is a message in flight: received here and not settled. What is not set once is guarded by the Reader's lock.
type flight struct {
	*Message
	of       *session
	ctx      context.Context
	received time.Time          // zero if what it says was let go
	suspect  bool               // a lost runner may have begun it
	request  *admission.Request // nil before it is asked for

	consumer *Consumer // that delivered it last
	settle   string    // that delivery
	lost     int       // session.lost when the attempt under way began
	begun    bool
	entered  bool // it is stored, the next of its session may be at work
	over     bool // it is not this flight's to settle any more
}

func (s *session) atWork() bool {
	return slices.ContainsFunc(s.flights, func(f *flight) bool { return f.begun })
}

// Receive takes in the nth delivery of a consumer, which settle acknowledges. It is called in their order.
func (r *Reader) Receive(c *Consumer, nth uint64, m *Message, settle string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case c != r.consumer || c.broken != nil:
		return // it comes again, from the next consumer
	case nth != c.received+1:
		r.breakLocked(c, errMissing)
		return
	}
	c.received++
	if f := r.flights[m.Seq]; f != nil { // only its settlement goes another way now
		f.consumer, f.settle = c, settle
		return
	}
	s := r.sessionOf(m)
	f := &flight{Message: m, of: s, received: time.Now(), consumer: c, settle: settle,
		suspect: c.suspect && c.received <= c.waiting}
	r.put(f)
	r.next(s)
	if !f.begun && m.Body.LetGo() {
		f.received = time.Time{}
	}
}

// sessionOf returns the session of a message, which it makes if there is none.
func (r *Reader) sessionOf(m *Message) *session {
	key := m.Session
	if key == "" {
		key = "." + strconv.FormatUint(m.Seq, 10)
	}
	s := r.sessions[key]
	if s == nil {
		s = &session{name: m.Session, key: key, partition: m.Partition}
		s.ctx, s.cutOff = context.WithCancelCause(r.work)
		r.sessions[key] = s
	}
	return s
}

// put appends a flight to those of its session.
func (r *Reader) put(f *flight) {
	f.ctx = f.of.ctx
	f.of.flights = append(f.of.flights, f)
	r.flights[f.Seq] = f
}

// next has the first message that has not entered begin, once it is admitted, and forgets a session without messages.
func (r *Reader) next(s *session) {
	if len(s.flights) == 0 && s.ending == 0 {
		s.cutOff(nil)
		if r.sessions[s.key] == s { // and not a later one
			delete(r.sessions, s.key)
		}
		return
	}
	at := slices.IndexFunc(s.flights, func(f *flight) bool { return !f.entered })
	if at < 0 || s.ending > 0 || s.flights[at].request != nil || r.isDraining() {
		return
	}
	f := s.flights[at]
	f.request = r.gate.Ask(s.key, f.Presses, time.Now(), func() {
		if !r.isDraining() {
			f.begun = true
			r.start(f)
		}
	})
}

// enter lets the next message of the session in.
func (r *Reader) enter(f *flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !f.entered {
		f.entered = true
		r.gate.Entered(f.request, time.Now())
		r.next(f.of)
	}
}

// forget takes a message out of those in flight, if it is there.
func (r *Reader) forget(f *flight) {
	if r.flights[f.Seq] != f {
		return
	}
	delete(r.flights, f.Seq)
	f.of.flights = slices.DeleteFunc(f.of.flights, func(o *flight) bool { return o == f })
	if f.consumer != r.consumer {
		f.of.lost++
	}
}

// end ends a flight that was begun.
func (r *Reader) end(f *flight) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gate.Done(f.request, time.Now())
	if f.over {
		f.of.ending--
	}
	r.forget(f)
	r.next(f.of)
}

// leave cuts the deliveries of a session off: another runner may have it. What the consumer in use has delivered of it
// begins anew, in the order of the stream, when they have ended. The rest may come again.
func (r *Reader) leave(s *session) {
	flights := s.flights
	s.flights = nil
	s.doubted = true
	s.cutOff(ErrMoved)
	s.ctx, s.cutOff = context.WithCancelCause(r.work)
	slices.SortFunc(flights, func(a, b *flight) int { return int(a.Seq) - int(b.Seq) })
	for _, f := range flights {
		f.over = true
		if f.begun {
			s.ending++
			r.o.Logger.Info("session left to another runner", "session", s.name, "seq", f.Seq)
		} else if f.request != nil {
			r.gate.Done(f.request, time.Now())
		}
		if f.consumer == r.consumer {
			r.put(&flight{Message: f.Message, of: s, received: f.received, consumer: f.consumer, settle: f.settle,
				suspect: f.suspect && !f.begun})
		} else {
			r.forget(f)
		}
	}
	r.next(s)
}

// leans reports whether a message that was delivered may have left its work to another flight of the session which
// another runner has settled: if this runner acknowledged the message and died, nothing would wake the session. What
// one consumer has delivered is settled by its reader alone. A consumer that is not in use any more may still be there,
// and an acknowledgement to it have an effect, until it is deleted.
func (r *Reader) leans(f *flight) bool {
	return f.lost != f.of.lost ||
		slices.ContainsFunc(f.of.flights, func(o *flight) bool { return o.consumer != f.consumer })
}
