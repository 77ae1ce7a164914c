package eventstoretest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

func testReadBack(t *testing.T, s Store) {
	ctx := contextFor(t)
	const n = 600 // more than one batch
	want := simples("s1", 1, n)
	l := mustOpen(t, s, "s1")
	mustAppend(t, l, want...)
	mustAppend(t, mustOpen(t, s, "s2"), simples("s2", 1, 3)...)
	reopened := mustOpen(t, s, "s1")
	for _, from := range []uint64{0, 1, 2, 257, n, n + 1, n + 100} {
		tail := want[min(max(from, 1)-1, n):]
		if d := diff(tail, collect(t, l.Read(ctx, from))); d != "" {
			t.Errorf("own log from %d (-want +got):\n%s", from, d)
		}
		if d := diff(tail, collect(t, reopened.Read(ctx, from))); d != "" {
			t.Errorf("log opened again from %d (-want +got):\n%s", from, d)
		}
		if d := diff(tail, collect(t, s.Read(ctx, "s1", from))); d != "" {
			t.Errorf("store from %d (-want +got):\n%s", from, d)
		}
	}
	mustVerify(t, s, "s1", n)
}

func testReadsToOwnHead(t *testing.T, s Store) {
	ctx := contextFor(t)
	a := mustOpen(t, s, "s1")
	mustAppend(t, a, simples("s1", 1, 3)...)
	b := mustOpen(t, s, "s1")
	mustAppend(t, a, simples("s1", 4, 6)...)
	if d := diff(simples("s1", 1, 3), collect(t, b.Read(ctx, 1))); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
	if d := diff(simples("s1", 5, 6), collect(t, a.Read(ctx, 5))); d != "" {
		t.Errorf("events with own appends (-want +got):\n%s", d)
	}
}

func testReadStops(t *testing.T, s Store) {
	mustAppend(t, mustOpen(t, s, "s1"), simples("s1", 1, 20)...)
	n := 0
	for _, err := range s.Read(contextFor(t), "s1", 1) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 3 {
			break
		}
	}
	ctx, cancel := context.WithCancel(contextFor(t))
	cancel()
	var last error
	for _, err := range s.Read(ctx, "s1", 1) {
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("read with an ended context: %v", last)
	}
}

func testAt(t *testing.T, s Store) {
	mustAppend(t, mustOpen(t, s, "s1"), simples("s1", 1, 300)...)
	for _, c := range []struct {
		at   time.Time
		want uint64
	}{
		{started, 0},
		{started.Add(time.Second), 1},
		{started.Add(2*time.Second - 1), 1},
		{started.Add(299500 * time.Millisecond), 299},
		{started.Add(time.Hour), 300},
		{started.Add(2 * time.Second).In(time.FixedZone("east", 3600)), 2},
	} {
		if got, err := s.At(contextFor(t), "s1", c.at); got != c.want || err != nil {
			t.Errorf("at %v: %d, %v, want %d", c.at, got, err, c.want)
		}
	}
}

func testSessions(t *testing.T, s Store) {
	var want []eventstore.SessionInfo
	for i, name := range []string{"B", "a", "a-b", "b_1", "zz"} {
		n := uint64(i + 1)
		mustAppend(t, mustOpen(t, s, name), simples(name, 1, n)...)
		want = append(want, eventstore.SessionInfo{
			Session: name, Events: n, Last: schemas.EventTurnStart, Time: started.Add(time.Duration(n) * time.Second),
		})
	}
	var got []eventstore.SessionInfo
	for info, err := range s.Sessions(contextFor(t)) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, info)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("sessions (-want +got):\n%s", d)
	}
	for range s.Sessions(contextFor(t)) {
		break
	}
}
