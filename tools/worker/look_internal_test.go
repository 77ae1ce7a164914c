package worker

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// A search that does not end with its context keeps nobody waiting, and there are never two.
func TestSlowLook(t *testing.T) {
	t.Parallel()
	begun, finish := make(chan struct{}, 9), make(chan struct{})
	l := newLook(func(context.Context) (schemas.Resources, error) {
		begun <- struct{}{}
		<-finish
		return schemas.Resources{Directory: "/d"}, nil
	})
	l.limit, l.pause = time.Millisecond, 0
	for range 3 {
		if _, err := l.run(t.Context()); !errors.Is(err, errSlowLook) {
			t.Errorf("got %v", err)
		}
	}
	if <-begun; len(begun) != 0 {
		t.Errorf("%d searches at once", 1+len(begun))
	}
	close(finish)
	l.limit = time.Minute
	l.busy <- struct{}{} // the first search has ended
	<-l.busy
	for range 3 {
		if found, err := l.run(t.Context()); err != nil || found.Directory != "/d" {
			t.Errorf("%v, %v", found, err)
		}
	}
}
