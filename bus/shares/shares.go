// Package shares divides what a service has only so much of, such as places for concurrent requests, among its callers.
package shares

import "sync"

// Shares limits how many units are taken at once. It is safe for concurrent use.
//
// No caller holds more units than it leaves free: the first has at most half of them, a second one at most half of the
// rest if the first has all it may have, and so on. So callers with many requests, even if there are several, leave
// some units for one who comes later.
type Shares struct {
	limit int

	mu    sync.Mutex
	taken int
	held  map[string]int // units of each caller that has some
}

// New returns Shares of limit units.
func New(limit int) *Shares { return &Shares{limit: limit, held: map[string]int{}} }

// Take takes n units for a caller, until Release. It takes nothing and returns false if fewer are free, or if the
// caller would then hold more than stay free; but a caller who holds none gets a single unit while one is free. For
// the caller "", which stands for all who cannot be told apart, only the limit counts.
func (s *Shares) Take(caller string, n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.fits(caller, n) {
		return false
	}
	s.taken += n
	s.held[caller] += n
	return true
}

// Fits returns whether Take would succeed now.
func (s *Shares) Fits(caller string, n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fits(caller, n)
}

func (s *Shares) fits(caller string, n int) bool {
	held, free := s.held[caller], s.limit-s.taken
	switch {
	case n > free:
		return false
	case caller == "" || held == 0 && n == 1:
		return true
	}
	return held+n <= free-n
}

// Held returns how many units a caller holds.
func (s *Shares) Held(caller string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[caller]
}

// Limit returns the number of units.
func (s *Shares) Limit() int { return s.limit }

// Release releases n units that the caller has taken.
func (s *Shares) Release(caller string, n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken -= n
	if s.held[caller] -= n; s.held[caller] == 0 {
		delete(s.held, caller)
	}
}
