package registry

import "time"

// expiry records when the entries of a bucket expire. Only one goroutine may use it.
type expiry struct {
	deadlines map[string]deadline // by key
	timer     *time.Timer         // fires at the earliest deadline
	behind    int                 // messages to process before entries expire; see due
}

type deadline struct {
	at       time.Time
	revision uint64 // of the entry that expires
}

func newExpiry() *expiry {
	x := &expiry{deadlines: map[string]deadline{}, timer: time.NewTimer(time.Hour)}
	x.timer.Stop()
	return x
}

func (x *expiry) stop() { x.timer.Stop() }

// set records that an entry expires ttl from now, or never if ttl is 0. It replaces the deadline of the key.
func (x *expiry) set(e entry, ttl time.Duration) {
	if ttl == 0 {
		delete(x.deadlines, e.key)
	} else {
		x.deadlines[e.key] = deadline{time.Now().Add(ttl), e.revision}
	}
	x.arm()
}

// due returns a channel that receives a value when a deadline has passed; call passed then.
func (x *expiry) due() <-chan time.Time { return x.timer.C }

// passed reports whether entries expire now. They do not while messages wait that were received before: a renewal may
// be among them, behind entries of other workers that take long to process. Then processed reports it.
func (x *expiry) passed(waiting int) bool {
	if x.behind > 0 {
		return false
	}
	x.behind = waiting
	return waiting == 0
}

// reset ends waiting for messages: their watch has broken, and the next one receives them again.
func (x *expiry) reset() {
	x.behind = 0
	x.arm()
}

// processed must be called for every message. It reports whether entries expire now.
func (x *expiry) processed() bool {
	if x.behind == 0 {
		return false
	}
	x.behind--
	return x.behind == 0
}

// expired removes the deadlines that have passed, and returns the deletions of their entries.
func (x *expiry) expired(now time.Time) (deletions []entry) {
	for key, d := range x.deadlines {
		if !now.Before(d.at) {
			deletions = append(deletions, entry{key: key, revision: d.revision, deleted: true})
			delete(x.deadlines, key)
		}
	}
	x.arm()
	return deletions
}

// arm sets the timer to the earliest deadline.
func (x *expiry) arm() {
	var next time.Time
	for _, d := range x.deadlines {
		if next.IsZero() || d.at.Before(next) {
			next = d.at
		}
	}
	if next.IsZero() {
		x.timer.Stop()
		return
	}
	x.timer.Reset(time.Until(next))
}
