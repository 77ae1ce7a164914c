package system

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/bus/retention"
	"github.com/loopbus/loopbus/schemas"
)

// Session returns a session of the Go client.
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

// Anew deletes a session that waits for approval and prompts it again, until a call with the same key waits. It returns
// the old and the new request for approval.
func (s *System) Anew(tb testing.TB, session, text string) (old, now *schemas.ApprovalRequested) {
	tb.Helper()
	old = DataOf[*schemas.ApprovalRequested](s.LogOf(tb, session))[0]
	d := retention.NewDeleter(s.Client, retention.Options{Store: s.Store, AbortWait: time.Nanosecond})
	if _, err := d.Delete(tb.Context(), retention.Request{Session: session, Force: true}); err != nil {
		tb.Fatal(err)
	}
	s.Prompt(tb, session, text)
	log := s.Until(tb, session, "what is asked anew", bustest.Nth(1, schemas.EventApprovalRequested))
	now = DataOf[*schemas.ApprovalRequested](log)[0]
	if now.Call != old.Call || now.Digest == old.Digest || now.Digest == "" {
		tb.Fatalf("the request was %+v, now it is %+v", old, now)
	}
	return old, now
}

// Unanswered checks that the session waits for approval and has no answer.
func (s *System) Unanswered(tb testing.TB, session string) {
	tb.Helper()
	log := s.LogOf(tb, session)
	asked, answers := DataOf[*schemas.ApprovalRequested](log), DataOf[*schemas.ApprovalResolved](log)
	if len(asked) != 1 || len(answers) != 0 {
		tb.Errorf("session %s has the requests %+v and the answers %+v", session, asked, answers)
	}
}

// Publish publishes a command with this payload, valid or not, and returns its sequence in the stream.
func (s *System) Publish(tb testing.TB, session string, kind schemas.CommandKind, payload string) uint64 {
	tb.Helper()
	ack, err := s.Client.JetStream().Publish(tb.Context(), s.Client.Subjects().Command(session, kind), []byte(payload))
	if err != nil {
		tb.Fatal(err)
	}
	return ack.Sequence
}

// Prompted sends a prompt to an idle session and returns the log up to the end of its run, which is the runs-th of the
// session.
func (s *System) Prompted(tb testing.TB, session, text string, runs int) []schemas.Event {
	tb.Helper()
	s.Prompt(tb, session, text)
	return s.Until(tb, session, "the end of the run", Ends(runs))
}

// Until follows a session's log from its first event and returns it up to the first event for which last returns true.
func (s *System) Until(tb testing.TB, session, what string, last func(schemas.Event) bool) []schemas.Event {
	tb.Helper()
	return bustest.Until(tb, s.Session(tb, session), what, last)
}

// Messages returns the number of messages in a stream, or of those that match the subject if it is not empty. It
// repeats requests, because a cluster that elects leaders may not answer.
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
