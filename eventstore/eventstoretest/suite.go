package eventstoretest

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// Run tests the contract of package eventstore. open returns an empty store; it is called once per case and cleans up
// through t.
func Run(t *testing.T, open func(t *testing.T) Store) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, s Store)
	}{
		{"a session without events is empty", testEmpty},
		{"what is flushed is read back, from any sequence", testReadBack},
		{"every kind of event comes back as it was", testRoundTrip},
		{"a log reads up to its own head", testReadsToOwnHead},
		{"a payload of a megabyte and more comes back", testBigPayload},
		{"more events than the queue holds are stored in order", testManyAppends},
		{"an event with a wrong sequence or session changes nothing", testWrongSequence},
		{"an illegal session id is refused", testIllegalSession},
		{"the second of two writers gets a conflict, for good", testConflict},
		{"a log knows whether it is still the only writer", testConfirm},
		{"a log opened again goes on", testReopen},
		{"a closed log stores nothing", testClosed},
		{"a reader may stop early, and is stopped by its context", testReadStops},
		{"the sequence at a time", testAt},
		{"sessions are listed by name", testSessions},
		{"a snapshot comes back under its version only", testSnapshot},
		{"a snapshot is at an event that is stored", testSnapshotPlace},
		{"verify compares the snapshot with the refold", testVerifyRefold},
		{"events gather until they are sent", testGathers},
		{"reading and snapshots inside of commits", testInsideCommits},
		{"a refused commit leaves nothing of itself", testRefusedCommit},
		{"any interleaving of writers leaves one order", testInterleavings},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

// timeout bounds each case: a store that hangs fails.
const timeout = 90 * time.Second

func contextFor(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	t.Cleanup(cancel)
	return ctx
}

func mustOpen(t *testing.T, s Store, session string) *eventstore.Log {
	t.Helper()
	l, err := s.Open(contextFor(t), session)
	if err != nil {
		t.Fatalf("open %s: %v", session, err)
	}
	t.Cleanup(l.Close)
	return l
}

// mustAppend appends events and flushes.
func mustAppend(t *testing.T, l *eventstore.Log, events ...schemas.Event) {
	t.Helper()
	hand(t, l, events...)
	if err := l.Flush(contextFor(t)); err != nil {
		t.Fatalf("flush: %v", err)
	}
}

// appendFlush appends one event and flushes, and returns the first error.
func appendFlush(ctx context.Context, l *eventstore.Log, e schemas.Event) error {
	if err := l.Append(ctx, e); err != nil {
		return err
	}
	return l.Flush(ctx)
}

// started is the time of the event before the first.
var started = time.Date(2026, 3, 4, 5, 6, 7, 89, time.UTC)

// simple is a small event. Sources tell writers apart.
func simple(session string, seq uint64, source string) schemas.Event {
	return schemas.Event{
		Session: session, Seq: seq, Source: source, RunID: "run-1", TurnID: "turn-1",
		Time: started.Add(time.Duration(seq) * time.Second), Data: &schemas.TurnStart{TurnIndex: int(seq)},
	}
}

func simples(session string, from, to uint64) []schemas.Event {
	events := []schemas.Event{}
	for seq := from; seq <= to; seq++ {
		events = append(events, simple(session, seq, "/a"))
	}
	return events
}

// diff compares events as they were appended with what was read, and checks that only those of the first commit
// have no previous hash.
func diff(want, got []schemas.Event) string {
	stripped := make([]schemas.Event, len(got))
	for i, e := range got {
		if e.Seq == 1 && e.PrevHash != "" || i > 0 && e.PrevHash == "" && got[i-1].PrevHash != "" {
			return "event " + e.ID() + " has the previous hash " + e.PrevHash
		}
		stripped[i] = e
		stripped[i].PrevHash = ""
	}
	return cmp.Diff(want, stripped)
}

// collect reads to the end.
func collect(t *testing.T, events func(yield func(schemas.Event, error) bool)) []schemas.Event {
	t.Helper()
	all := []schemas.Event{}
	for e, err := range events {
		if err != nil {
			t.Fatalf("read: %v", err)
		}
		all = append(all, e)
	}
	return all
}

// mustVerify checks that a log is sound and has this many events.
func mustVerify(t *testing.T, s Store, session string, events uint64) {
	t.Helper()
	r, err := s.Verify(contextFor(t), session, verifyAll)
	if err != nil {
		t.Fatalf("verify %s: %v", session, err)
	}
	if !r.OK() {
		t.Fatalf("verify %s: %v", session, r.Bad)
	}
	if r.Events != events {
		t.Fatalf("verify %s: %d events, want %d", session, r.Events, events)
	}
}
