package web

import "net/http"

// DefaultMaxRequests is how many requests a port has at work at a time.
const DefaultMaxRequests = 512

// Slots bounds how many requests are at work at a time. It is safe for concurrent use.
type Slots chan struct{}

// NewSlots returns slots for n requests.
func NewSlots(n int) Slots { return make(Slots, n) }

// Serve has next answer, or, where there is no slot, busy, which answers with [http.StatusServiceUnavailable].
func (s Slots) Serve(w http.ResponseWriter, r *http.Request, next http.Handler, busy http.HandlerFunc) {
	select {
	case s <- struct{}{}:
		defer func() { <-s }()
		next.ServeHTTP(w, r)
	default:
		w.Header().Set("Retry-After", "5")
		busy(w, r)
	}
}
