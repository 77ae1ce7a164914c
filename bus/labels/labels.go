// Package labels bounds the values that a label of a metric takes, whatever models and clients say: each new value is a
// new series for ever.
package labels

import (
	"sync"
	"unicode/utf8"
)

// Other is what a value is counted as that is unknown, or one too many.
const Other = "other"

// maxBytes is the longest value that is a label.
const maxBytes = 100

// Set is the values that a label has taken. Its methods may be called concurrently.
type Set struct {
	mu   sync.Mutex
	room int
	seen map[string]bool
}

// NewSet returns a set that takes so many values. Those that are reserved are taken whatever comes first, and count.
func NewSet(most int, reserved ...string) *Set {
	s := &Set{room: most, seen: make(map[string]bool)}
	for _, v := range reserved {
		s.Value(v)
	}
	return s
}

// Value returns the value if the set has it or has room for it, else [Other]. The empty value is no value and always
// itself. What is too long or no UTF-8 is [Other].
func (s *Set) Value(v string) string {
	if v == "" || v == Other {
		return v
	}
	if len(v) > maxBytes || !utf8.ValidString(v) {
		return Other
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[v] {
		return v
	}
	if len(s.seen) >= s.room {
		return Other
	}
	s.seen[v] = true
	return v
}

// Seconds are the buckets of durations, from 5 ms to ten minutes.
func Seconds() []float64 {
	return []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600}
}
