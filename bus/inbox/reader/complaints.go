package reader

import (
	"sync"
	"time"
)

const (
	complaintAge  = time.Hour // after which the same is said of a session once more
	maxComplaints = 1024      // that are remembered; beyond that all are forgotten
)

// complaints keep the log from saying the same of a session at each delivery: one whose log is damaged fails the same
// way every time. The zero value is ready.
type complaints struct {
	mu   sync.Mutex
	said map[[2]string]time.Time // by session and cause
}

// first reports whether a session's cause has not been said lately, and remembers it.
func (c *complaints) first(session, cause string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := [2]string{session, cause}
	if now.Sub(c.said[key]) < complaintAge {
		return false
	}
	if c.said == nil || len(c.said) >= maxComplaints {
		c.said = make(map[[2]string]time.Time)
	}
	c.said[key] = now
	return true
}
