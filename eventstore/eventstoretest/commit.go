package eventstoretest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// hand appends events without sending them.
func hand(t *testing.T, l *eventstore.Log, events ...schemas.Event) {
	t.Helper()
	for _, e := range events {
		if err := l.Append(contextFor(t), e); err != nil {
			t.Fatalf("append %s: %v", e.ID(), err)
		}
	}
}

// previous counts the events of each commit, by the previous hash that they share.
func previous(events []schemas.Event) (sizes []int) {
	for i, e := range events {
		if i == 0 || e.PrevHash != events[i-1].PrevHash {
			sizes = append(sizes, 0)
		}
		sizes[len(sizes)-1]++
	}
	return sizes
}

func testGathers(t *testing.T, s Store) {
	ctx := contextFor(t)
	l := mustOpen(t, s, "s1")
	hand(t, l, simples("s1", 1, 5)...)
	if got := collect(t, s.Read(ctx, "s1", 1)); len(got) != 0 {
		t.Errorf("%d events are stored before they are sent", len(got))
	}
	mustAppend(t, l)
	hand(t, l, simples("s1", 6, 8)...)
	if err := l.Confirm(ctx, time.Now()); err != nil {
		t.Fatal(err)
	}
	hand(t, l, simple("s1", 9, "/a"))
	l.Send() // with nothing in flight: it goes at once, and comes by itself
	got := collect(t, s.Read(ctx, "s1", 1))
	for len(got) < 9 && ctx.Err() == nil {
		got = collect(t, s.Read(ctx, "s1", 1))
	}
	if d := diff(simples("s1", 1, 9), got); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
	if sizes := fmt.Sprint(previous(got)); sizes != "[5 3 1]" {
		t.Errorf("commits of %s events", sizes)
	}
	l.Send() // nothing
	mustVerify(t, s, "s1", 9)
}

// testInsideCommits reads and takes snapshots from every event of commits of one, four and two events.
func testInsideCommits(t *testing.T, s Store) {
	ctx := contextFor(t)
	l := mustOpen(t, s, "s1")
	mustAppend(t, l, simple("s1", 1, "/a"))
	mustAppend(t, l, simples("s1", 2, 5)...)
	mustAppend(t, l, simples("s1", 6, 7)...)
	for seq := uint64(1); seq <= 7; seq++ {
		state, err := fold(func(yield func(schemas.Event) bool) {
			for _, e := range simples("s1", 1, seq) {
				yield(e)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := l.SaveSnapshot(ctx, foldVersion, seq, state); err != nil {
			t.Fatal(err)
		}
		mustVerify(t, s, "s1", 7)
		again := mustOpen(t, s, "s1")
		if got, at, err := again.Snapshot(ctx, foldVersion); at != seq || string(got) != string(state) || err != nil {
			t.Errorf("snapshot at %d: %q at %d, %v", seq, got, at, err)
		}
		tail := simples("s1", seq+1, 7)
		if d := diff(tail, collect(t, again.Read(ctx, seq+1))); d != "" {
			t.Errorf("after the snapshot at %d (-want +got):\n%s", seq, d)
		}
		if seq < 7 {
			if d := diff(tail, collect(t, s.Read(ctx, "s1", seq+1))); d != "" {
				t.Errorf("read from %d (-want +got):\n%s", seq+1, d)
			}
		}
		if at, err := s.At(ctx, "s1", simple("s1", seq, "").Time); at != seq || err != nil {
			t.Errorf("at the time of event %d is %d, %v", seq, at, err)
		}
	}
}

// A refused commit leaves nothing of itself, and names its first event; what was stored before stays.
func testRefusedCommit(t *testing.T, s Store) {
	a := mustOpen(t, s, "s1")
	mustAppend(t, a, simples("s1", 1, 2)...)
	b := mustOpen(t, s, "s1")
	mustAppend(t, b, simple("s1", 3, "/b"))
	hand(t, a, simples("s1", 3, 6)...)
	err := a.Flush(contextFor(t))
	var conflict *schemas.ConflictError
	if !errors.As(err, &conflict) || conflict.Seq != 3 {
		t.Errorf("flush: %v", err)
	}
	mustVerify(t, s, "s1", 3)
}
