package eventstore_test

import (
	"errors"
	"testing"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

var errCrash = errors.New("crash")

// Crash points of a writer: before an event is stored, and after it with the acknowledgement lost. A log may end with
// any event, also with one in the middle of a commit.
func TestMemoryCrashesAtEvents(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		at   uint64
		lost bool
		want uint64 // events that are stored
	}{{1, false, 0}, {2, false, 2 - 1}, {3, false, 2}, {4, false, 3}, {1, true, 2}, {2, true, 2}, {3, true, 4}} {
		m := eventstore.NewMemory()
		m.OnAppend = func(e schemas.Event, stored bool) error {
			if e.Seq == c.at && stored == c.lost {
				return errCrash
			}
			return nil
		}
		memoryCrash(t, m, c.want)
	}
}

// Crash points of commits: all events of a commit are stored, or none.
func TestMemoryCrashesAtCommits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		at   int
		lost bool
		want uint64
	}{{1, false, 0}, {2, false, 2}, {1, true, 2}, {2, true, 4}} {
		m := eventstore.NewMemory()
		n := 0
		m.OnCommit = func(events []schemas.Event, stored bool) error {
			if len(events) != 2 {
				t.Errorf("a commit of %d events", len(events))
			}
			if !stored {
				n++
			}
			if n == c.at && stored == c.lost {
				return errCrash
			}
			return nil
		}
		memoryCrash(t, m, c.want)
	}
}

// memoryCrash appends two commits of two events, one of which fails, and finds want events.
func memoryCrash(t *testing.T, m *eventstore.Memory, want uint64) {
	t.Helper()
	l, err := m.Open(t.Context(), "s1")
	if err != nil {
		t.Fatal(err)
	}
	for seq := uint64(1); seq <= 4 && err == nil; seq++ {
		if err = l.Append(t.Context(), event("s1", seq, "a")); err == nil && seq%2 == 0 {
			err = l.Flush(t.Context())
		}
	}
	if !errors.Is(err, errCrash) || !errors.Is(l.Flush(t.Context()), errCrash) {
		t.Errorf("it ended with %v", err)
	}
	r, err := m.Verify(t.Context(), "s1", eventstore.VerifyOptions{})
	if err != nil || !r.OK() || r.Events != want {
		t.Errorf("%d events, %v, %v; want %d", r.Events, r.Bad, err, want)
	}
}
