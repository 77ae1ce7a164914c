package reader

import (
	"context"
	"errors"
	"slices"
	"time"
)

// A consumer of a replicated work queue may skip a message, after a server was killed and started again: it delivers
// later ones from consumer sequence 1 on and counts the skipped one neither as delivered nor as pending (nats-server
// 2.15.2, seen twice in 380 restarts, and once for a message that was stored two seconds after the consumer's creation,
// and a second after a comparison had missed none). The next consumer delivers it, unless the servers have removed it
// before (decision 147). So a message must not start before an earlier one of its session that was skipped, and a
// skipped message must not wait for the next consumer.

const (
	// rememberFor is for how long a consumer remembers, at least, what was settled here: for a moment it is still stored.
	rememberFor = 2 * checkEvery
	// firstCompare is the pause before the first comparison of a consumer with the stream. The next ones double, up to
	// checkEvery: the servers remove what a consumer has skipped within seconds or minutes.
	firstCompare = time.Second
	// lookAgain is between the first look at the stream and the last one, and firstLook between the first two; the pauses
	// grow. Acknowledgements and deliveries arrive in that time.
	firstLook = 20 * time.Millisecond
	lookAgain = 500 * time.Millisecond
	// maxLooks limits the sessions that one check looks at.
	maxLooks = 64
)

var errSkipped = errors.New("it has skipped a message")

// overtakes reports whether the consumer has skipped an earlier message of the session, so that neither this delivery
// nor a later one of the session must start. Then the consumer is replaced, and the next one delivers all of them.
func (r *Reader) overtakes(d *delivery) bool {
	for pause, waited := firstLook, time.Duration(0); ; pause, waited = 2*pause, waited+pause {
		after := r.before(d)
		if d.Session == "" || after >= d.Seq {
			return false
		}
		first, err := r.o.Queue.First(d.ctx, Place{d.Partition, d.Session}, after)
		if err == nil && (first == 0 || first >= d.Seq) {
			return false
		}
		if err == nil && waited >= lookAgain {
			break
		}
		if !r.pause(d, min(pause, lookAgain)) {
			return true
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.breakLocked(r.consumer, errSkipped) // also if it is a later one, which may have delivered what is forgotten here
	// Or else the next consumer would leave the messages to these deliveries, and until there is one they would start.
	for _, o := range slices.Clone(d.of.deliveries) {
		if !o.entered {
			r.forget(o)
		}
	}
	return true
}

// before returns the sequence of the message of the session that this one follows, as far as this runner knows.
func (r *Reader) before(d *delivery) (after uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	after = max(d.of.settled, d.consumer.settled[d.Session], d.consumer.settledBefore[d.Session])
	for _, o := range d.of.deliveries {
		if o == d {
			break
		}
		after = max(after, o.Seq)
	}
	return after
}

// settle remembers that a message was settled here. mu is held.
func (c *Consumer) settle(d *delivery) {
	if time.Since(c.remembers) >= rememberFor {
		c.settledBefore, c.settled, c.remembers = c.settled, map[string]uint64{}, time.Now()
	}
	c.settled[d.Session] = max(c.settled[d.Session], d.Seq)
}

// isLate reports whether a later message of the session than m is in flight and not in its log. A consumer has skipped
// m before. mu is held.
func (s *session) isLate(m *Message) bool {
	return slices.ContainsFunc(s.deliveries, func(d *delivery) bool { return d.Seq > m.Seq && !d.entered })
}

// checkSkipped breaks the consumer if messages are stored that it has not delivered, although it says that it has
// delivered everything. One that a consumer before has delivered may be in flight, but cannot be settled.
func (r *Reader) checkSkipped(ctx context.Context) {
	r.mu.Lock()
	c := r.consumer
	r.mu.Unlock()
	if c == nil {
		return
	}
	stored, err := r.o.Queue.Stored(ctx, c)
	if err != nil {
		return
	}
	var missing []missed
	for _, p := range r.suspects(stored) {
		missing = append(missing, r.undelivered(ctx, p)...)
	}
	if len(missing) == 0 {
		return
	}
	select {
	case <-ctx.Done():
		return
	case <-time.After(lookAgain):
	}
	for _, m := range missing {
		if slices.Contains(r.undelivered(ctx, m.Place), m) {
			r.Break(c, errSkipped)
			return
		}
	}
}

// missed is a stored message that the consumer in use has not delivered.
type missed struct {
	Place
	seq uint64
}

// suspects returns the sessions with more stored messages than the consumer in use has delivered.
func (r *Reader) suspects(stored map[Place]int) (places []Place) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for p, n := range stored {
		if s := r.sessions[p.Session]; s != nil {
			for _, d := range s.deliveries {
				if d.consumer == r.consumer {
					n--
				}
			}
		}
		if n > 0 && len(places) < maxLooks {
			places = append(places, p)
		}
	}
	return places
}

// undelivered returns the first stored message of a session that the consumer in use has not delivered, if any.
func (r *Reader) undelivered(ctx context.Context, p Place) []missed {
	for after := uint64(0); ; {
		seq, err := r.o.Queue.First(ctx, p, after)
		if err != nil || seq == 0 {
			return nil
		}
		r.mu.Lock()
		d := r.deliveries[seq]
		delivered := d != nil && d.consumer == r.consumer
		r.mu.Unlock()
		if !delivered {
			return []missed{{p, seq}}
		}
		after = seq
	}
}
