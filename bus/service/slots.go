package service

import "sync"

// slots limits concurrent requests. It is safe for concurrent use.
type slots struct {
	most int

	mu    sync.Mutex
	taken int
	held  map[string]int // slots in use by share
}

// take reserves a slot for a request and returns the function that releases it; nil if none is free. share is
// [Endpoint].Share.
func (s *slots) take(share func(subject string) string, subject string) (release func()) {
	whose := ""
	if share != nil {
		whose = share(subject)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken >= s.most || share != nil && s.held[whose] >= (s.most+1)/2 {
		return nil
	}
	s.taken++
	s.held[whose]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.taken--
		if s.held[whose]--; s.held[whose] == 0 {
			delete(s.held, whose)
		}
	}
}
