//go:build unix

package anylanguage_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/schemas"
)

// decode reads an update as a viewer does. It fails the test if the update is invalid.
func decode(msg *nats.Msg) *schemas.Update {
	u, err := schemas.DecodeUpdate(msg.Header, msg.Data)
	if err != nil {
		return &schemas.Update{Source: err.Error(), Data: &schemas.ToolExecutionUpdate{}}
	}
	return &u
}

// drain returns the updates that have arrived.
func drain(c <-chan *nats.Msg) (all []*schemas.Update) {
	for {
		select {
		case msg := <-c:
			all = append(all, decode(msg))
		default:
			return all
		}
	}
}

func within[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(system.Deadline):
		t.Fatal("waited too long")
		panic("unreachable")
	}
}
