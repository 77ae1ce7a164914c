package reader

import (
	"sync"
	"time"
)

const (
	logAgain  = time.Hour // after which the same failure of a session is logged again
	maxLogged = 1024      // failures that are remembered; beyond that all are forgotten
)

// logLimit limits how often a failure of a session is logged: a session whose log is damaged fails at each delivery in
// the same way. The zero value is ready for use.
type logLimit struct {
	mu     sync.Mutex
	logged map[[2]string]time.Time // by session and cause
}

// allow reports whether the cause was not logged for the session in the last hour, and remembers it.
func (l *logLimit) allow(session, cause string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := [2]string{session, cause}
	if now.Sub(l.logged[key]) < logAgain {
		return false
	}
	if l.logged == nil || len(l.logged) >= maxLogged {
		l.logged = make(map[[2]string]time.Time)
	}
	l.logged[key] = now
	return true
}
