package registry_test

import (
	"fmt"
	"testing"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/registry"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/schemas"
)

// A bucket is followed through any number of restarts of its server.
func TestAToolboxSurvivesRestartsOfTheServer(t *testing.T) {
	t.Parallel()
	addr, start := bustest.Restartable(t)
	s := start()
	c := bustest.Dial(t, bus.ConnOptions{URL: "nats://" + addr})
	if err := streams.Setup(bustest.Deadline(t), c, streams.Options{}); err != nil {
		t.Fatal(err)
	}
	box := registry.NewToolbox(c, nil)
	t.Cleanup(box.Close)
	for n := range 4 {
		tool := fmt.Sprintf("tool%d", n)
		bustest.Announce(t, c, "w1", schemas.ToolDefinition{Name: tool, Description: "x", Parameters: []byte(`{}`)})
		if err := box.Wait(bustest.Deadline(t), tool); err != nil {
			t.Fatalf("after %d restarts: %v", n, err)
		}
		s.Shutdown()
		bustest.Eventually(t, "the connection is down", func() bool { return !c.Connected() })
		s = start()
		bustest.Eventually(t, "the connection is up", c.Connected)
	}
}
