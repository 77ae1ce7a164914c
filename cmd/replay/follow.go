package main

import (
	"context"
	"time"

	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/cmd/internal/waiting"
	"github.com/loopbus/loopbus/schemas"
)

// follow prints a session's events and, in a transcript, the text that is being streamed, until ctx ends, which is
// not an error.
func (a *app) follow(ctx context.Context, t *transcript, show func(schemas.Event) error) error {
	c, err := client.New(a.conn.NATS(), client.Options{Prefix: a.o.Connection.Prefix, Logger: a.log,
		Dial: a.o.Connection.Settings()})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	items := make(chan item, 64)
	ended := make(chan struct{})
	defer func() { stop(); <-ended }()
	go func() {
		defer close(ended)
		for i, err := range c.Session(a.o.sessions[0]).Watch(ctx, 1) {
			select {
			case items <- item{i, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	var waits waiting.Calls
	tick := time.NewTicker(waiting.Look)
	defer tick.Stop()
	for {
		select {
		case now := <-tick.C:
			if err := a.aside(t, waits.Late(now)...); err != nil {
				return err
			}
		case i := <-items:
			if i.Event != nil {
				waits.Event(*i.Event, time.Now())
			} else if i.Update != nil {
				if err := a.aside(t, waits.Update(*i.Update)); err != nil {
					return err
				}
			}
			if err := a.showItem(ctx, i, t, show); err != nil || ctx.Err() != nil {
				return err
			}
			if len(items) == 0 { // nothing more to print for now: show what there is
				if err := a.out.Flush(); err != nil {
					return err
				}
			}
		case <-ctx.Done():
			return t.interrupt()
		}
	}
}

// aside prints lines that are not part of the transcript, for a person who follows it live.
func (a *app) aside(t *transcript, lines ...string) error {
	for _, line := range lines {
		if line == "" || a.o.json {
			continue
		}
		if err := t.print("    " + t.style.dim(oneLine(line, t.cut)) + "\n"); err != nil {
			return err
		}
		if err := a.out.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// item is what a follower receives: an event, an update, or the error that ended following.
type item struct {
	client.Item
	err error
}

func (a *app) showItem(ctx context.Context, i item, t *transcript, show func(schemas.Event) error) error {
	switch {
	case i.err != nil && ctx.Err() != nil:
		return t.interrupt()
	case i.err != nil:
		return i.err
	case i.Event != nil:
		return show(*i.Event)
	case a.o.json:
		return nil
	}
	return t.update(*i.Update)
}
