package inbox_test

import (
	"strings"
	"testing"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/schemas"
)

// A runner that was not stopped when an operator created the inbox again, with another number of partitions, does not
// read the new one, and says why. Runners that were started since read all of it.
func TestARunnerLeavesAnInboxThatWasReplaced(t *testing.T) {
	t.Parallel()
	s, c := bustest.Small(t)
	old, _ := bustest.RunInbox(t, c, bustest.Fast("old"), &fakeHandler{})
	if err := c.JetStream().DeleteStream(bustest.Deadline(t), schemas.StreamCommands); err != nil {
		t.Fatal(err)
	}
	const partitions = 12
	if err := streams.Setup(bustest.Deadline(t), c, streams.Options{Partitions: partitions}); err != nil {
		t.Fatal(err)
	}
	old.LoseConsumer() // it would notice within 15 s
	bustest.Eventually(t, "the runner says why it does not read", func() bool {
		err := old.Health()
		return err != nil && strings.Contains(err.Error(), "restart the runner")
	})
	in, _ := bustest.RunInbox(t, bustest.Connect(t, s), bustest.Fast("new"), &fakeHandler{})
	bustest.Eventually(t, "the other runner reads all", func() bool { return len(in.Partitions()) == partitions })
	if reads := old.Partitions(); reads != nil {
		t.Errorf("the runner reads %v", reads)
	}
}
