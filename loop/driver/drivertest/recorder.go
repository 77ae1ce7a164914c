// Package drivertest has helpers for tests of programs that use a driver.
package drivertest

import (
	"context"
	"iter"
	"sync"

	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/schemas"
)

// A Recorder is a model that records the requests it gets and passes them on to Model. It is safe for concurrent use if
// Model is.
type Recorder struct {
	driver.Model

	mu    sync.Mutex
	asked []schemas.ModelRequest
}

// Stream records the request and returns Model's stream.
func (r *Recorder) Stream(ctx context.Context, req schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	r.mu.Lock()
	r.asked = append(r.asked, req)
	r.mu.Unlock()
	return r.Model.Stream(ctx, req)
}

// Requests returns the requests of a session so far, in order. The caller must not change what they refer to.
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
