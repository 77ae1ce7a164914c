package system

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/schemas"
)

// Session is a session, as a Go client sees it.
func (s *System) Session(tb testing.TB, id string) *client.Session {
	tb.Helper()
	return bustest.Client(tb, s.Client).Session(id)
}

// Send sends a command.
func (s *System) Send(tb testing.TB, session string, data schemas.CommandData, opts ...client.Option) {
	tb.Helper()
	bustest.Command(tb, s.Session(tb, session), data, opts...)
}

// Prompt sends a prompt.
func (s *System) Prompt(tb testing.TB, session, text string) {
	tb.Helper()
	bustest.Prompt(tb, s.Session(tb, session), text)
}

// Publish publishes a command as it is written, well or badly, and returns its sequence in the stream.
func (s *System) Publish(tb testing.TB, session string, kind schemas.CommandKind, payload string) uint64 {
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
	s.Prompt(tb, session, text)
	return s.Until(tb, session, "the end of the run", Ends(runs))
}

// Until follows a session's log from its first event and returns it up to the first event for which last holds.
func (s *System) Until(tb testing.TB, session, what string, last func(schemas.Event) bool) []schemas.Event {
	tb.Helper()
	return bustest.Until(tb, s.Session(tb, session), what, last)
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
