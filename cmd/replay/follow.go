package main

import (
	"context"
	"sync"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/schemas"
)

// followed is what a session's follower sees: an event, an update, or why there is no more of either.
type followed struct {
	event  *schemas.Event
	update *schemas.Update
	err    error
}

// follow shows a session's events and, in the transcript, the text that is being streamed, until ctx ends, which is no
// error.
func (a *app) follow(ctx context.Context, t *transcript, show func(schemas.Event) error) error {
	ctx, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	ch := make(chan followed, 64)
	wg.Go(func() { a.followEvents(ctx, ch) })
	if !a.o.json {
		wg.Go(func() { a.followUpdates(ctx, ch) })
	}
	for {
		select {
		case f := <-ch:
			if err := one(f, t, show); err != nil {
				return err
			}
			if len(ch) == 0 {
				if err := a.out.Flush(); err != nil {
					return err
				}
			}
		case <-ctx.Done():
			return t.interrupt()
		}
	}
}

func one(f followed, t *transcript, show func(schemas.Event) error) error {
	switch {
	case f.err != nil:
		return f.err
	case f.event != nil:
		return show(*f.event)
	}
	return t.update(*f.update)
}

func (a *app) followEvents(ctx context.Context, ch chan<- followed) {
	for e, err := range a.store.Follow(ctx, a.o.sessions[0], 1) {
		f := followed{event: &e}
		if err != nil {
			f = followed{err: err}
		}
		select {
		case ch <- f:
		case <-ctx.Done():
			return
		}
	}
}

// followUpdates does without updates where there are none to be had: each message comes whole at its end then.
func (a *app) followUpdates(ctx context.Context, ch chan<- followed) {
	for u, err := range bus.WatchUpdates(ctx, a.conn, a.o.sessions[0]) {
		if err != nil {
			a.log.Warn("streamed text is not shown as it comes", "err", err)
			return
		}
		select {
		case ch <- followed{update: &u}:
		case <-ctx.Done():
			return
		}
	}
}
