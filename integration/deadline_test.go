package integration_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

// The deadline of a run holds although its runner has stopped: a later runner ends the run, which waits for a tool,
// when the deadline has passed.
func TestTheDeadlineOfARunOutlivesItsRunner(t *testing.T) {
	t.Parallel()
	const timeout = 2500 * time.Millisecond
	server := system.StartServer(t, false)
	o := system.Options{
		Model:      scripted.New(scripted.Calls("", schemas.ToolCall{Name: "absent"})),
		Limits:     schemas.Limits{RunTimeoutMs: timeout.Milliseconds()},
		AbortGrace: time.Millisecond,
	}
	waiting := func(e schemas.Event) bool { return e.Type() == schemas.EventToolExecutionStart }
	var began time.Time
	t.Run("first runner", func(t *testing.T) {
		s := system.Start(t, server.ClientURL(), o)
		announce(t, s, "absent")
		s.Prompt(t, "s1", "go")
		began = s.Until(t, "s1", "the call", waiting)[0].Time
		untilTimer(t, s, "s1")
	})
	s := system.Start(t, server.ClientURL(), o)
	log := s.Until(t, "s1", "the end", system.Ends(1))
	end, ok := log[len(log)-1].Data.(*schemas.AgentEnd)
	if !ok || end.TerminationReason != schemas.TimeoutRun {
		t.Errorf("ended with %+v", log[len(log)-1].Data)
	}
	if took := log[len(log)-1].Time.Sub(began); took < timeout {
		t.Errorf("ended after %s, before its time", took)
	}
}

// announce announces a tool that no worker serves.
func announce(t *testing.T, s *system.System, tool string) {
	t.Helper()
	a := schemas.ToolAnnouncement{ToolDefinition: schemas.ToolDefinition{Name: tool}, Worker: "ghost",
		Since: "2026-01-01T00:00:00Z"}
	raw, err := schemas.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	subject := "$KV." + schemas.BucketTools + "." + schemas.AnnouncementKey(tool, "ghost")
	if _, err := s.Client.JetStream().Publish(t.Context(), subject, raw, jetstream.WithMsgTTL(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := s.Toolbox.Wait(t.Context(), tool); err != nil {
		t.Fatal(err)
	}
}

// untilTimer waits until the session's timer is stored. The runner sets it concurrently with the run.
func untilTimer(t *testing.T, s *system.System, session string) {
	t.Helper()
	for end := time.Now().Add(system.Deadline); time.Now().Before(end); {
		if set, err := bustest.TimerWaits(t.Context(), s.Conn, session, schemas.TimerRunDeadline); err == nil && set {
			return
		}
	}
	t.Fatal("the session's timer was not set")
}
