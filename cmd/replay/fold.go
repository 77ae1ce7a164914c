package main

import (
	"context"
	"encoding/json"
	"iter"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// runState prints the state that a log comes to.
func runState(ctx context.Context, a *app) error {
	state := new(loop.State)
	for e, err := range a.events(ctx, a.o.sessions[0], a.o.at) {
		if err == nil {
			err = state.Apply(e)
		}
		if err != nil {
			return err
		}
	}
	enc := json.NewEncoder(a.jsonOut())
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(state)
}

// refold is the state of a session after some events, as a runner saves it.
func refold(session string, events iter.Seq[schemas.Event]) ([]byte, error) {
	state := &loop.State{Session: session}
	for e := range events {
		if err := state.Apply(e); err != nil {
			return nil, err
		}
	}
	return json.Marshal(state)
}
