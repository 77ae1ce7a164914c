package worker

import (
	"context"
	"errors"
	"time"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// lookPause is the time from a look for resources that took too long to the next one: otherwise a workspace that takes
// long would keep a core busy for half of the time.
const lookPause = time.Minute

var errSlowLook = errors.New("the search for them in the workspace takes too long, and is repeated later")

// A look searches for the resources for prompts, one search at a time. Its caller waits for limit at most, even if the
// search goes on because a file system does not answer: the announcements of the tools come after it.
type look struct {
	search       func(context.Context) (schemas.Resources, error)
	limit, pause time.Duration
	busy         chan struct{} // has room for one token
}

func newLook(search func(context.Context) (schemas.Resources, error)) look {
	return look{search, publishTimeout, lookPause, make(chan struct{}, 1)}
}

func (l look) run(ctx context.Context) (schemas.Resources, error) {
	select {
	case l.busy <- struct{}{}:
	default:
		return schemas.Resources{}, errSlowLook
	}
	type result struct {
		found schemas.Resources
		err   error
	}
	limited, cancel := context.WithTimeout(ctx, l.limit)
	defer cancel()
	done := make(chan result, 1)
	go func() {
		found, err := l.search(limited)
		if limited.Err() != nil {
			natsio.Wait(ctx, l.pause)
		}
		<-l.busy
		done <- result{found, err}
	}()
	select {
	case r := <-done:
		return r.found, r.err
	case <-limited.Done():
		return schemas.Resources{}, errSlowLook
	}
}
