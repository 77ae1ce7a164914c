package models

import (
	"slices"
	"sync"
)

// uploads are the calls whose requests are not whole yet. They do not count as running calls: a client that begins
// requests and never ends them must not keep others from their models. For a request beyond the limit of their number,
// or of the bytes of all requests, one of the caller that has the most is ended.
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
	of := map[string]int{}
	for _, c := range u.calls {
		of[c.caller]++
	}
	return u.remove(func(caller string) int { return of[caller] })
}

// endOneOf removes and returns a call of the caller that has the most, or nil.
func (u *uploads) endOneOf(has func(caller string) int) *serverCall {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.remove(has)
}

// remove removes and returns the call that was begun first of the caller that has the most.
func (u *uploads) remove(has func(caller string) int) *serverCall {
	at, most := -1, -1
	for i, c := range u.calls {
		if n := has(c.caller); n > most {
			at, most = i, n
		}
	}
	if at < 0 {
		return nil
	}
	c := u.calls[at]
	u.calls = slices.Delete(u.calls, at, at+1)
	return c
}

// end removes a call, if it is still there.
func (u *uploads) end(c *serverCall) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if i := slices.Index(u.calls, c); i >= 0 {
		u.calls = slices.Delete(u.calls, i, i+1)
	}
}
