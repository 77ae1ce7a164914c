package inbox_test

import (
	"context"
	"slices"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/schemas"
)

// What was in flight when its session was deleted is not delivered afterwards, neither again nor for the first time;
// the session that begins anew gets only its own, and other sessions lose nothing.
func TestWhatWasDeletedIsNotDelivered(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	release := make(chan struct{})
	h := &fakeHandler{deliver: func(ctx context.Context, cmd schemas.Command, entered func()) error {
		select {
		case <-release:
		case <-ctx.Done():
			return ctx.Err()
		}
		if textOf(cmd) == "first" {
			return &schemas.ConflictError{Session: cmd.Session, Seq: 2} // its log was deleted
		}
		return nil
	}}
	in, _ := bustest.RunInbox(t, c, bustest.Fast("r1"), h)
	bustest.Send(t, c, "s1", "first")
	bustest.Send(t, c, "s1", "second")
	for _, session := range []string{"s2", "s3", "s4"} {
		bustest.Send(t, c, session, "other")
		bustest.Send(t, c, session, "another")
	}
	bustest.Eventually(t, "all are in flight", func() bool { return in.InFlight() == 8 && h.total() == 4 })
	stream, err := c.JetStream().Stream(bustest.Deadline(t), schemas.StreamCommands)
	if err == nil {
		err = stream.Purge(bustest.Deadline(t), jetstream.WithPurgeSubject("agent.cmd.*.s1.*"))
	}
	if err != nil {
		t.Fatal(err)
	}
	close(release)
	bustest.Eventually(t, "nothing is in flight", func() bool { return in.InFlight() == 0 })
	bustest.Send(t, c, "s1", "new")
	bustest.Eventually(t, "the new command is there", func() bool { return slices.Contains(h.texts("s1"), "new") })
	if got := h.texts("s1"); !slices.Equal(got, []string{"first", "new"}) {
		t.Errorf("session s1 got %v", got)
	}
	for _, session := range []string{"s2", "s3", "s4"} {
		if got := h.texts(session); !slices.Equal(got, []string{"other", "another"}) {
			t.Errorf("session %s got %v", session, got)
		}
	}
	bustest.Eventually(t, "the inbox is empty", func() bool {
		info, err := stream.Info(bustest.Deadline(t))
		return err == nil && info.State.Msgs == 0
	})
}
