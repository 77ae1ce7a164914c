package reader

import (
	"context"
	"log/slog"
	"slices"
	"time"
)

const (
	// crowdedEvery is the time between two looks for sessions that keep places from others.
	crowdedEvery = time.Second
	// crowdedAfter is how long a message keeps its place beyond what its session may keep, unless others of the session
	// were refused in the time of refusingFor.
	crowdedAfter, refusingFor = 5 * time.Second, 10 * time.Second
	// maxRefusing is how many messages are refused at once.
	maxRefusing   = 512
	refusePause   = time.Second // after a failure
	reasonCrowded = "it waited behind many others of its session, and the runner held too many commands"
)

// Kind is a kind of messages, of which a session keeps only so many places where few are left.
type Kind int

// The kinds of messages. A session can have 256 calls whose results are on their way, but whoever may answer the calls
// of one tool may send results to every session, too.
const (
	System  Kind = iota // what the session itself has requested: it keeps its places
	Command             // what a client sends by itself
	Urgent              // such a command that only continues a run
	Result              // of a tool
	kinds
)

// mostKept returns how many messages of a kind keep their places in a session, by how few are left.
func (r *Reader) mostKept(k Kind) int {
	few := len(r.deliveries) > r.o.MaxInFlight/4*3
	switch {
	case k == System:
		return r.o.MaxInFlight
	case k == Result && few:
		return 32
	case k == Result:
		return 256
	case few:
		return 16
	}
	return 64
}

// watchCrowds looks for sessions that keep too many places until ctx ends.
func (r *Reader) watchCrowds(ctx context.Context) {
	look := time.NewTicker(crowdedEvery)
	defer look.Stop()
	for {
		select {
		case now := <-look.C:
			r.refuseCrowded(now)
		case <-ctx.Done():
			return
		}
	}
}

// refuseCrowded refuses messages of sessions that keep more places than others may need, if more than half of them are
// taken: sessions that wait for memory or for admission, or go on slowly. A sender who fills the places with messages
// to a few sessions would keep all others out.
func (r *Reader) refuseCrowded(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.isCrowded() || r.isDraining() {
		return
	}
	for _, s := range r.sessions {
		r.refuseBeyond(s, now)
	}
}

// isCrowded reports whether few places are left. mu is held.
func (r *Reader) isCrowded() bool { return len(r.deliveries) > r.o.MaxInFlight/2 }

// refuseBeyond refuses what a session has beyond what it may keep. mu is held.
func (r *Reader) refuseBeyond(s *session, now time.Time) {
	var kept [kinds]int
	s.deliveries = slices.DeleteFunc(s.deliveries, func(d *delivery) bool {
		if !d.mayRefuse() {
			return false
		}
		kept[d.Kind]++
		if kept[d.Kind] <= r.mostKept(d.Kind) || !s.wasRefused(now) && now.Sub(d.came) < crowdedAfter {
			return false
		}
		r.refuse(d)
		return true
	})
}

// mayRefuse reports whether a message may be refused: it waits for others of its session.
func (d *delivery) mayRefuse() bool { return d.Kind != System && !d.entered && d.request == nil }

// wasRefused reports whether messages of the session have been refused lately. Those that come now are refused at once.
func (s *session) wasRefused(now time.Time) bool { return now.Sub(s.refused) < refusingFor }

// refuseNew refuses a message that has just come, if others of its session have been lately and it may keep no more. mu
// is held.
func (r *Reader) refuseNew(d *delivery) (refused bool) {
	s, kept := d.of, 0
	if d.Kind == System || !r.isCrowded() || !s.wasRefused(d.came) {
		return false
	}
	for _, o := range s.deliveries {
		if o.Kind == d.Kind && o.mayRefuse() {
			kept++
		}
	}
	if kept < r.mostKept(d.Kind) {
		return false
	}
	d.Body.DropPayload()
	r.deliveries[d.Seq] = d
	r.refuse(d)
	return true
}

// refuse has a message refused that is not among the deliveries of its session. mu is held.
func (r *Reader) refuse(d *delivery) {
	d.of.refused = time.Now()
	r.crowded = append(r.crowded, d)
	if r.refusers < maxRefusing {
		r.refusers++
		r.running.Go(r.refuseAll)
	}
}

func (r *Reader) refuseAll() {
	for {
		r.mu.Lock()
		if len(r.crowded) == 0 {
			r.refusers--
			r.mu.Unlock()
			return
		}
		d := r.crowded[0]
		r.crowded = r.crowded[1:]
		r.mu.Unlock()
		for !r.tryRefuse(d) {
			select {
			case <-time.After(refusePause):
			case <-r.draining.Done():
			}
		}
	}
}

// tryRefuse refuses a message and acknowledges it. It reports whether there is nothing left to do: a message that the
// consumer in use has not delivered is forgotten, as it is delivered again, here or elsewhere, unless it was settled.
func (r *Reader) tryRefuse(d *delivery) (done bool) {
	if r.isDraining() || r.forgetOld(d) {
		return true
	}
	if err := r.o.Handler.Refuse(r.work, d.Message, reasonCrowded); err != nil {
		r.logTry(d, slog.LevelError, "message not refused", 1, err)
		return false
	}
	if r.forgetOld(d) {
		return true
	}
	r.mu.Lock()
	d.consumer.acked++
	reply := d.reply
	r.forget(d)
	r.mu.Unlock()
	r.o.Queue.Ack(reply)
	r.o.Count(Refused)
	return true
}

// forgetOld forgets a message that the consumer in use has not delivered, and reports whether it has.
func (r *Reader) forgetOld(d *delivery) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d.consumer == r.consumer {
		return false
	}
	r.forget(d)
	return true
}
