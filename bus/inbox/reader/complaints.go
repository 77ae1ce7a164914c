package reader

import (
	"sync"
	"time"
)

const (
	// complaintAge is after how long the same is said of a session once more.
	complaintAge = time.Hour
	// maxComplaints is how many are remembered.
	maxComplaints = 1024
)

// complaints keep the log from saying the same of a session at each delivery: one whose log is damaged fails the same
// way every time. The zero value is ready.
type complaints struct {
	mu   sync.Mutex
	said map[complaint]time.Time
}

type complaint struct{ session, cause string }

// first reports whether a session's cause has not been said lately, and remembers it.
func (c *complaints) first(session, cause string, now time.Time) bool {
	key := complaint{session, cause}
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, ok := c.said[key]; ok && now.Sub(at) < complaintAge {
		return false
	}
	if len(c.said) >= maxComplaints {
		for k, at := range c.said {
			if now.Sub(at) >= complaintAge {
				delete(c.said, k)
			}
		}
	}
	if c.said == nil || len(c.said) >= maxComplaints {
		c.said = make(map[complaint]time.Time)
	}
	c.said[key] = now
	return true
}
