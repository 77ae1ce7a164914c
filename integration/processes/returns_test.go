//go:build unix

package processes_test

import (
	"fmt"
	"testing"

	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/integration/internal/wire"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// TestASettledCommandComesBack loses the acknowledgement of a prompt, as a cluster does that loses the leader of the
// inbox. The next runner gets the prompt once more, when the session has forgotten it.
func TestASettledCommandComesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lost := newTap(point{what: passAck, n: 1}, wire.Lose, func(*command) {})
	first := w.runner("first", responses{text("done")}, lost)
	w.prompt("s1", "go")
	w.await(lost)
	last := ""
	for n := range loop.MaxKnown + 50 {
		last = fmt.Sprint("n", n)
		w.publish("s1", schemas.CommandName, last, fmt.Sprintf(`{"name":"%d"}`, n))
	}
	applied := func(e schemas.Event) bool {
		return e.CausationID == last && e.Type() == schemas.EventCommandApplied
	}
	before := w.until("s1", "the last command", applied)
	if err := first.Kill(); err != nil {
		t.Fatal(err)
	}
	w.runner("second", responses{text("twice")}, nil)
	w.empty(schemas.StreamCommands)
	if log := system.LogOf(t, w.store, "s1"); len(log) != len(before) {
		t.Errorf("a prompt that came back led to %v", system.TypesOf(log[len(before):]))
	}
}
