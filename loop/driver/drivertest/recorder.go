// Package drivertest has what tests of programs that use a driver share.
package drivertest

import (
	"context"
	"iter"
	"sync"

	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/schemas"
)

// A Recorder is a model that remembers what it was asked, and has Model answer. It is safe for concurrent use where
// Model is.
type Recorder struct {
	driver.Model

	mu    sync.Mutex
	asked []schemas.ModelRequest
}

// Stream remembers the request before Model has it.
func (r *Recorder) Stream(ctx context.Context, req schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	r.mu.Lock()
	r.asked = append(r.asked, req)
	r.mu.Unlock()
	return r.Model.Stream(ctx, req)
}

// Requests are those of a session so far, in their order. What they share with the requests is not to be changed.
func (r *Recorder) Requests(session string) (list []schemas.ModelRequest) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, req := range r.asked {
		if req.SessionID == session {
			list = append(list, req)
		}
	}
	return list
}
