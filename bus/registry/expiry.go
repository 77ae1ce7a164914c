package registry

import "time"

// expiry knows which entries of a bucket end when. It belongs to one goroutine.
type expiry struct {
	ends  map[string]ending // by key
	timer *time.Timer       // of the next one
}

type ending struct {
	at       time.Time
	revision uint64
}

func newExpiry() *expiry {
	x := &expiry{ends: map[string]ending{}, timer: time.NewTimer(time.Hour)}
	x.timer.Stop()
	return x
}

func (x *expiry) stop() { x.timer.Stop() }

// set says that an entry ends ttl from now, or not at all where that is 0.
func (x *expiry) set(e entry, ttl time.Duration) {
	if ttl == 0 {
		delete(x.ends, e.key)
	} else {
		x.ends[e.key] = ending{time.Now().Add(ttl), e.revision}
	}
	x.arm()
}

// due has a value once an entry may be over.
func (x *expiry) due() <-chan time.Time { return x.timer.C }

// over takes out the entries that have ended, as what has become of them.
func (x *expiry) over(now time.Time) (ended []entry) {
	for key, end := range x.ends {
		if !now.Before(end.at) {
			ended = append(ended, entry{key: key, revision: end.revision, deleted: true})
			delete(x.ends, key)
		}
	}
	x.arm()
	return ended
}

// arm sets the timer to the next end.
func (x *expiry) arm() {
	var next time.Time
	for _, end := range x.ends {
		if next.IsZero() || end.at.Before(next) {
			next = end.at
		}
	}
	if next.IsZero() {
		x.timer.Stop()
		return
	}
	x.timer.Reset(time.Until(next))
}
