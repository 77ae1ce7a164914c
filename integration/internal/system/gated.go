package system

import (
	"context"
	"iter"
	"sync"

	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/schemas"
)

// Gated is a model that pauses in the middle of each reply until the test lets it continue.
type Gated struct {
	driver.Model
	Reached chan struct{} // gets a value for each reply that pauses
	Release func()        // ends all pauses for good

	after int
	goOn  chan struct{}
}

// NewGated returns a model that pauses each reply before its event number after.
func NewGated(after int, model driver.Model) *Gated {
	g := &Gated{Model: model, after: after, Reached: make(chan struct{}, 16), goOn: make(chan struct{})}
	g.Release = sync.OnceFunc(func() { close(g.goOn) })
	return g
}

// Stream streams the reply of the model, with the pause.
func (g *Gated) Stream(ctx context.Context, req schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	return func(yield func(schemas.StreamEvent, error) bool) {
		n := 0
		for e, err := range g.Model.Stream(ctx, req) {
			if n++; n == g.after {
				select {
				case g.Reached <- struct{}{}:
				case <-ctx.Done():
				}
				select {
				case <-g.goOn:
				case <-ctx.Done():
				}
			}
			if !yield(e, err) {
				return
			}
		}
	}
}
