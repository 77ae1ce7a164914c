package models

import (
	"slices"
	"sync"
)

// uploads are the calls whose requests are not whole yet. They do not count as running calls: a client that begins
// requests and never ends them must not keep others from their models. For a request beyond the limit of their number,
// or of the bytes of all requests, the one that was begun first is ended.
type uploads struct {
	most int

	mu    sync.Mutex
	calls []*serverCall // in the order in which they were begun
}

// begin adds a call. It returns the call to end for it, or nil.
func (u *uploads) begin(c *serverCall) (surplus *serverCall) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.calls = append(u.calls, c)
	if len(u.calls) <= u.most {
		return nil
	}
	surplus = u.calls[0]
	u.calls = slices.Delete(u.calls, 0, 1)
	return surplus
}

// oldest removes and returns the call that was begun first, or nil.
func (u *uploads) oldest() *serverCall {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.calls) == 0 {
		return nil
	}
	oldest := u.calls[0]
	u.calls = slices.Delete(u.calls, 0, 1)
	return oldest
}

// end removes a call, if it is still there.
func (u *uploads) end(c *serverCall) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if i := slices.Index(u.calls, c); i >= 0 {
		u.calls = slices.Delete(u.calls, i, i+1)
	}
}
