package reader

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/loopbus/loopbus/bus/inbox/admission"
)

// session is a session that has messages in flight here. The Reader's lock guards it.
type session struct {
	name      string // "" for a message without a legal session id, which has no order to keep
	key       string // in Reader.sessions
	partition int
	// deliveries are in the order in which they start. Those that have entered the log come first; of the others only
	// the first may be at work, and an abort that overtakes it.
	deliveries []*delivery
	settled    uint64          // the largest sequence that was settled here
	unverified bool            // another runner may have extended it
	refused    time.Time       // when one of its messages was refused
	cancelling int             // released deliveries that have not returned; nothing starts before they have
	ctx        context.Context // of its deliveries
	cancel     context.CancelCauseFunc
}

// delivery is a message in flight: received and not settled. The Reader's lock guards the fields that change.
type delivery struct {
	*Message
	of       *session
	ctx      context.Context
	received time.Time          // zero if its payload was dropped
	came     time.Time          // when it was received
	suspect  bool               // a lost runner may have started it
	request  *admission.Request // nil before admission is requested

	consumer  *Consumer // that has delivered it last
	reply     string    // of that delivery
	started   bool
	entered   bool // it is in the session's log, the next message may start
	released  bool // it must not be settled by this delivery any more
	overtake  *time.Timer
	otherLost bool // during the attempt a delivery of the session ended that the consumer in use had not delivered
}

func (s *session) atWork() bool {
	return slices.ContainsFunc(s.deliveries, func(d *delivery) bool { return d.started })
}

// Receive takes in the nth delivery of consumer c, which an acknowledgement to reply settles. Deliveries of a consumer
// have to be passed in their order.
func (r *Reader) Receive(c *Consumer, nth uint64, m *Message, reply string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case c != r.consumer || c.broken != nil:
		return // the next consumer redelivers it
	case nth != c.received+1:
		r.breakLocked(c, errMissing)
		return
	}
	c.received++
	if d := r.deliveries[m.Seq]; d != nil { // redelivered: only the acknowledgement goes to this consumer now
		d.consumer, d.reply = c, reply
		return
	}
	s := r.sessionOf(m)
	now := time.Now()
	d := &delivery{Message: m, of: s, received: now, came: now, consumer: c, reply: reply,
		suspect: c.suspect && c.received <= c.backlog}
	if r.refuseNew(d) {
		return
	}
	late := m.Seq > s.settled && s.isLate(m)
	r.put(d)
	switch {
	case m.Aborts:
		r.raise(s)
	case m.Inherits:
		m.raised = make(chan struct{})
	}
	if late {
		r.release(s) // which has all of them start in their order
	}
	r.next(s)
	if !d.started && m.Body.DropPayload() {
		d.received = time.Time{}
	}
}

// sessionOf returns the session of a message, and creates it if there is none.
func (r *Reader) sessionOf(m *Message) *session {
	key := m.Session
	if key == "" {
		key = "." + strconv.FormatUint(m.Seq, 10)
	}
	s := r.sessions[key]
	if s == nil {
		s = &session{name: m.Session, key: key, partition: m.Partition}
		s.ctx, s.cancel = context.WithCancelCause(r.work)
		r.sessions[key] = s
	}
	return s
}

// put appends a delivery to those of its session.
func (r *Reader) put(d *delivery) {
	d.ctx = d.of.ctx
	d.of.deliveries = append(d.of.deliveries, d)
	r.deliveries[d.Seq] = d
}

// next requests admission for the first message that has not entered the log, and forgets a session without messages.
func (r *Reader) next(s *session) {
	if len(s.deliveries) == 0 && s.cancelling == 0 {
		s.cancel(nil)
		if r.sessions[s.key] == s { // not a later session of that key
			delete(r.sessions, s.key)
		}
		return
	}
	at := slices.IndexFunc(s.deliveries, func(d *delivery) bool { return !d.entered })
	if at < 0 || s.cancelling > 0 || r.isDraining() {
		return
	}
	d := s.deliveries[at]
	if d.request != nil {
		if d = r.mayOvertake(s, at); d == nil {
			return
		}
	}
	d.aside = func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.gate.Entered(d.request, time.Now())
	}
	d.request = r.gate.Request(s.key, d.Urgent || d.isRaised, time.Now(), func() {
		if !r.isDraining() {
			d.started = true
			r.start(d)
		}
	})
}

// enter records that a message is in its session's log, so that the next one may start.
func (r *Reader) enter(d *delivery) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !d.entered {
		d.entered = true
		r.gate.Entered(d.request, time.Now())
		r.next(d.of)
	}
}

// forget removes a message from those in flight, unless another delivery has taken its place.
func (r *Reader) forget(d *delivery) {
	if r.deliveries[d.Seq] != d {
		return
	}
	delete(r.deliveries, d.Seq)
	d.of.deliveries = slices.DeleteFunc(d.of.deliveries, func(o *delivery) bool { return o == d })
	if d.consumer != r.consumer {
		for _, o := range d.of.deliveries {
			o.otherLost = true
		}
	}
}

// end is called when process returns.
func (r *Reader) end(d *delivery) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gate.Done(d.request, time.Now())
	if d.released {
		d.of.cancelling--
	}
	r.forget(d)
	r.next(d.of)
}

// release cancels the deliveries of a session, because another runner may have it. When they have returned, what the
// consumer in use has delivered of the session starts again, in the order of the stream. The other messages are
// forgotten: a later consumer, here or elsewhere, redelivers those that are not settled. mu is held.
func (r *Reader) release(s *session) {
	deliveries := s.deliveries
	s.deliveries = nil
	s.unverified = true
	s.cancel(ErrMoved)
	s.ctx, s.cancel = context.WithCancelCause(r.work)
	slices.SortFunc(deliveries, func(a, b *delivery) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, d := range deliveries {
		d.released = true
		if d.started {
			s.cancelling++
			r.o.Logger.Info("session left to another runner", "session", s.name, "seq", d.Seq)
		} else if d.request != nil {
			r.gate.Done(d.request, time.Now())
		}
		if d.consumer == r.consumer {
			r.put(&delivery{Message: d.Message, of: s, received: d.received, came: d.came, consumer: d.consumer,
				reply: d.reply, suspect: d.suspect && !d.started})
		} else {
			r.forget(d)
		}
	}
	r.next(s)
}

// dependsOnOther reports whether the work of a delivered message may have been left to another delivery of the session
// which another runner has settled. If this runner then acknowledged the message and died, nothing would wake the
// session. Messages that the same consumer has delivered are no risk, unless another runner may read the partition too:
// only its own reader settles them. A delivery of a consumer that is not in use any more is one: until the servers have
// deleted the consumer, acknowledgements to it have an effect.
func (r *Reader) dependsOnOther(d *delivery) bool {
	return d.otherLost || len(d.of.deliveries) > 1 && d.consumer.mayShare(d.Partition) ||
		slices.ContainsFunc(d.of.deliveries, func(o *delivery) bool { return o.consumer != d.consumer })
}
