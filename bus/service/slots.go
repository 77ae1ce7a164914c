package service

import "sync"

// slots are for the requests that are answered at once. It is safe for concurrent use.
type slots struct {
	most int

	mu    sync.Mutex
	taken int
	held  map[string]int // of those taken, by whose request it is
}

// take takes a slot for a request, and returns what gives it back, nil where there is none for it. share says whose the
// request is; nil is nobody's.
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
