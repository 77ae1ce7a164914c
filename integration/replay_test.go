package integration_test

import (
	"encoding/json"
	"iter"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// refold is the state of a session after some events, as a runner saves it.
func refold(session string) func(iter.Seq[schemas.Event]) ([]byte, error) {
	return func(events iter.Seq[schemas.Event]) ([]byte, error) {
		state := &loop.State{Session: session}
		for e := range events {
			if err := state.Apply(e); err != nil {
				return nil, err
			}
		}
		return json.Marshal(state)
	}
}
