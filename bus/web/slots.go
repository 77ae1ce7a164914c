package web

import "net/http"

// DefaultMaxRequests is the default limit of concurrent requests of a port.
const DefaultMaxRequests = 512

// Slots limits concurrent requests. It is safe for concurrent use.
type Slots chan struct{}

// NewSlots returns slots for n requests.
func NewSlots(n int) Slots { return make(Slots, n) }

// Serve calls next if a slot is free. Otherwise it calls busy, which answers with [http.StatusServiceUnavailable].
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
