// Package background waits for groups of goroutines and makes requests one after the other in the background.
package background

import (
	"context"
	"sync"
	"time"
)

// requestTimeout bounds one request. A cluster needs up to ten seconds to elect a leader.
const requestTimeout = 15 * time.Second

// Wait returns nil once the group is empty, or ctx's error.
func Wait(ctx context.Context, group *sync.WaitGroup) error {
	done := make(chan struct{})
	go func() {
		group.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Requests makes requests one after the other, so that they reach a server in order. The zero value is ready to use.
// Its methods must not be called concurrently; the requests themselves run in goroutines.
type Requests struct {
	last chan struct{} // closed when the newest request is done; nil before the first
}

// Last returns a channel that is closed when the newest request is done, nil before the first.
func (r *Requests) Last() <-chan struct{} { return r.last }

// Pending reports whether a request is under way.
func (r *Requests) Pending() bool {
	if r.last == nil {
		return false
	}
	select {
	case <-r.last:
		return false
	default:
		return true
	}
}

// Add uses start to run a goroutine that makes the request after the requests before it. The context of a request ends
// after fifteen seconds.
func (r *Requests) Add(start func(f func()), request func(ctx context.Context)) {
	before, done := r.last, make(chan struct{})
	r.last = done
	start(func() {
		defer close(done)
		if before != nil {
			<-before
		}
		ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
		defer cancel()
		request(ctx)
	})
}
