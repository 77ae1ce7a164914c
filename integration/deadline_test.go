package integration_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

// The wall clock of a run goes on while nobody runs: a run that waits for a tool, whose runner has long stopped, is
// ended by the runner that is there when its time is up.
func TestTheDeadlineOfARunOutlivesItsRunner(t *testing.T) {
	const timeout = 2500 * time.Millisecond
	server := startServer(t, false)
	o := systemOptions{
		model:      scripted.New(scripted.Calls("", schemas.ToolCall{Name: "absent"})),
		limits:     schemas.Limits{RunTimeoutMs: timeout.Milliseconds()},
		abortGrace: time.Millisecond,
	}
	waiting := func(e schemas.Event) bool { return e.Type() == schemas.EventToolExecutionStart }
	var began time.Time
	t.Run("first runner", func(t *testing.T) {
		s := startSystemWith(t, server, o)
		s.announce(t, "absent")
		s.send(t, "s1", schemas.CommandPrompt, "go")
		began = s.until(t, "s1", "the call", waiting)[0].Time
		s.untilTimer(t, "s1")
	})
	s := startSystemWith(t, server, o)
	log := s.until(t, "s1", "the end", ends(1))
	end, ok := log[len(log)-1].Data.(*schemas.AgentEnd)
	if !ok || end.TerminationReason != schemas.TimeoutRun {
		t.Errorf("ended with %+v", log[len(log)-1].Data)
	}
	if took := log[len(log)-1].Time.Sub(began); took < timeout {
		t.Errorf("ended after %s, before its time", took)
	}
}

// announce has a tool that nobody serves.
func (s *system) announce(t *testing.T, tool string) {
	t.Helper()
	a := schemas.ToolAnnouncement{ToolDefinition: schemas.ToolDefinition{Name: tool}, Worker: "ghost", Since: "2026-01-01T00:00:00Z"}
	raw, err := schemas.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	subject := "$KV." + schemas.BucketTools + "." + schemas.AnnouncementKey(tool, "ghost")
	if _, err := s.tools.JetStream().Publish(t.Context(), subject, raw, jetstream.WithMsgTTL(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := s.toolbox.Wait(t.Context(), tool); err != nil {
		t.Fatal(err)
	}
}

// untilTimer waits until the session's timer is stored: it is set beside the run.
func (s *system) untilTimer(t *testing.T, session string) {
	t.Helper()
	stream, err := s.runner.JetStream().Stream(t.Context(), schemas.StreamTimers)
	if err != nil {
		t.Fatal(err)
	}
	subject := s.runner.Subjects().Schedule(session, schemas.TimerRunDeadline)
	for end := time.Now().Add(deadline); time.Now().Before(end); {
		if _, err := stream.GetLastMsgForSubject(t.Context(), subject); err == nil {
			return
		}
	}
	t.Fatal("no timer was set")
}
