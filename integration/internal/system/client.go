package system

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/schemas"
)

// Send publishes a command and returns its sequence in the stream.
func (s *System) Send(tb testing.TB, session string, kind schemas.CommandKind, payload string) uint64 {
	tb.Helper()
	ack, err := s.Client.JetStream().Publish(tb.Context(), s.Client.Subjects().Command(session, kind), []byte(payload))
	if err != nil {
		tb.Fatal(err)
	}
	return ack.Sequence
}

// Prompted sends a prompt to a session without a run under way and returns the log up to the end of its run, which is
// the runs-th of the session.
func (s *System) Prompted(tb testing.TB, session, text string, runs int) []schemas.Event {
	tb.Helper()
	s.Send(tb, session, schemas.CommandPrompt, text)
	return s.Until(tb, session, "the end of the run", Ends(runs))
}

// Until follows a session's log from its first event and returns it up to the first event for which last holds.
func (s *System) Until(tb testing.TB, session, what string, last func(schemas.Event) bool) []schemas.Event {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), Deadline)
	defer cancel()
	var log []schemas.Event
	for e, err := range s.Store.Follow(ctx, session, 1) {
		if err != nil {
			tb.Fatal(err)
		}
		if log = append(log, e); last(e) {
			return log
		}
	}
	tb.Fatalf("session %s: never saw %s, the log is %v", session, what, TypesOf(log))
	return nil
}

// Messages is how many messages a stream holds, those that match the subject if there is one. A cluster that elects
// leaders may leave the question without an answer, so it is asked again.
func (s *System) Messages(tb testing.TB, stream, subject string) (n uint64) {
	tb.Helper()
	Eventually(tb, "stream "+stream+" tells what it holds", func() bool {
		var err error
		if n, err = s.messages(tb.Context(), stream, subject); err != nil {
			tb.Logf("how many messages %s holds: %v", stream, err)
		}
		return err == nil
	})
	return n
}

func (s *System) messages(ctx context.Context, stream, subject string) (n uint64, err error) {
	info, err := s.Client.JetStream().Stream(ctx, stream)
	if err != nil {
		return 0, err
	}
	if subject == "" {
		return info.CachedInfo().State.Msgs, nil
	}
	detail, err := info.Info(ctx, jetstream.WithSubjectFilter(subject))
	if err != nil {
		return 0, err
	}
	for _, count := range detail.State.Subjects {
		n += count
	}
	return n, nil
}

// EmptyInbox waits until every command is acknowledged.
func (s *System) EmptyInbox(tb testing.TB) {
	tb.Helper()
	Eventually(tb, "the inbox is empty", func() bool { return s.Messages(tb, schemas.StreamCommands, "") == 0 })
}
