package reader

import "time"

// overtakeAfter is how long an abort waits behind messages of its session before it overtakes them. They are in the log
// within milliseconds, unless their session waits for memory.
const overtakeAfter = 500 * time.Millisecond

// mayOvertake returns the abort of a session that starts although the message at an index is at work and not in the
// log, nil if there is none: all messages before it that are not in the log have to yield to it. mu is held.
func (r *Reader) mayOvertake(s *session, at int) *delivery {
	for _, d := range s.deliveries[at:] {
		switch {
		case d.entered:
		case d.Aborts && d.request != nil:
			return nil
		case d.Aborts:
			left := overtakeAfter - time.Since(d.came)
			if left <= 0 {
				return d
			}
			if d.overtake == nil {
				d.overtake = time.AfterFunc(left, func() { r.again(s) })
			}
			return nil
		case !d.Yields:
			return nil
		}
	}
	return nil
}

// again is next after some time.
func (r *Reader) again(s *session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.sessions[s.key] == s {
		r.next(s)
	}
}
