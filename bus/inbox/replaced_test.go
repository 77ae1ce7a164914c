package inbox_test

import (
	"context"
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

// A stream that was restored, or has lost what was not synced, gives sequences a second time. The command that gets one
// is another command.
func TestASequenceThatIsUsedAgainIsAnotherCommand(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	stream, err := c.JetStream().Stream(bustest.Deadline(t), schemas.StreamCommands)
	if err != nil {
		t.Fatal(err)
	}
	commands := make(chan schemas.Command, 2)
	h := fakeHandler{deliver: func(_ context.Context, cmd schemas.Command, _ func()) error {
		commands <- cmd
		return nil
	}}
	_, stop := bustest.RunInbox(t, c, bustest.Fast("r1"), &h)
	bustest.Send(t, c, "s1", "one")
	bustest.Eventually(t, "the first command is settled", func() bool { return bustest.Queued(t, c) == 0 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if err := c.JetStream().DeleteStream(bustest.Deadline(t), schemas.StreamCommands); err != nil {
		t.Fatal(err)
	}
	if _, err := c.JetStream().CreateStream(bustest.Deadline(t), stream.CachedInfo().Config); err != nil {
		t.Fatal(err)
	}
	bustest.RunInbox(t, c, bustest.Fast("r2"), &h)
	bustest.Send(t, c, "s1", "two")
	one, two := <-commands, <-commands
	if one.ID == two.ID || one.InboxPosition != two.InboxPosition {
		t.Errorf("ids %s and %s, places %v and %v", one.ID, two.ID, one.InboxPosition, two.InboxPosition)
	}
}
