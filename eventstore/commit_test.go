package eventstore_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// spans are the first and last sequences of the messages of s1.
func spans(t *testing.T, js jetstream.JetStream) (all []string) {
	t.Helper()
	stream, err := js.Stream(t.Context(), schemas.StreamEvents)
	if err != nil {
		t.Fatal(err)
	}
	for seq := uint64(1); seq <= stream.CachedInfo().State.LastSeq; seq++ {
		m, err := stream.GetMsg(t.Context(), seq)
		if err != nil {
			t.Fatal(err)
		}
		first, last, err := schemas.LogSpan("s1", m.Header)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%d-%d", first, last))
	}
	return all
}

func wantSpans(t *testing.T, js jetstream.JetStream, want ...string) {
	t.Helper()
	if d := cmp.Diff(want, spans(t, js)); d != "" {
		t.Errorf("commits (-want +got):\n%s", d)
	}
}

func hand(t *testing.T, l *eventstore.Log, from, to uint64) {
	t.Helper()
	for seq := from; seq <= to; seq++ {
		if err := l.Append(ctxOf(t), event("s1", seq, "a")); err != nil {
			t.Fatal(err)
		}
	}
}

// Events gather in one commit until it is sent, while another is in flight, and until Confirm or Flush.
func TestCommitsGather(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, eventstore.Options{})
	l := open(t, f.store, "s1")
	hand(t, l, 1, 3)
	wantSpans(t, f.js) // nothing is sent by itself
	f.proxy.loseDown.Store(true)
	l.Send()
	f.stored(t, "s1", 3)
	hand(t, l, 4, 5)
	l.Send()
	hand(t, l, 6, 6)
	wantSpans(t, f.js, "1-3") // one is in flight
	f.proxy.cut()             // and answered now
	f.stored(t, "s1", 6)
	hand(t, l, 7, 8)
	if err := l.Confirm(ctxOf(t), time.Now()); err != nil {
		t.Fatal(err)
	}
	hand(t, l, 9, 9)
	if err := l.Flush(ctxOf(t)); err != nil {
		t.Fatal(err)
	}
	wantSpans(t, f.js, "1-3", "4-6", "7-8", "9-9")
	mustVerify(t, f.direct, "s1", 9)
}

// A commit is cut before it has too many events, or is too large.
func TestCommitsAreCut(t *testing.T) {
	t.Parallel()
	s, js := newJetStream(t, eventstore.Options{})
	l := open(t, s, "s1")
	hand(t, l, 1, 65)
	for seq, size := range []int{100 << 10, 100 << 10, 100 << 10, 250 << 10, 1} {
		e := event("s1", uint64(66+seq), "a")
		e.Data = &schemas.ErrorEvent{Code: "big", Message: strings.Repeat("x", size)}
		if err := l.Append(ctxOf(t), e); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Flush(ctxOf(t)); err != nil {
		t.Fatal(err)
	}
	all := spans(t, js)
	for _, want := range []string{"1-64", "69-70"} {
		if !slices.Contains(all, want) {
			t.Errorf("no commit %s in %v", want, all)
		}
	}
	stream, err := js.Stream(t.Context(), schemas.StreamEvents)
	if err != nil {
		t.Fatal(err)
	}
	for seq := range all {
		m, err := stream.GetMsg(t.Context(), uint64(seq+1))
		if err != nil || len(m.Data) > 257<<10 {
			t.Errorf("message %d has %d bytes, %v", seq+1, len(m.Data), err)
		}
	}
	mustVerify(t, s, "s1", 70)
}

// An event that cannot be encoded leaves no trace, wherever it comes in a commit.
func TestCommitLeavesOutEventThatCannotBeEncoded(t *testing.T) {
	t.Parallel()
	s, js := newJetStream(t, eventstore.Options{})
	l := open(t, s, "s1")
	for seq := uint64(1); seq <= 3; seq++ {
		if err := l.Append(ctxOf(t), event("s1", seq, "")); err == nil {
			t.Error("an event without a source was taken")
		}
		hand(t, l, seq, seq)
	}
	mustAppend(t, l)
	wantSpans(t, js, "1-3")
}

// An attribute that is missing or changes in the middle of a commit is not taken from the event before.
func TestCommitKeepsAttributesApart(t *testing.T) {
	t.Parallel()
	s, _ := newJetStream(t, eventstore.Options{})
	var want []schemas.Event
	for seq := uint64(1); seq <= 6; seq++ {
		e := event("s1", seq, fmt.Sprint("a", seq/3))
		e.Time = event("s1", seq/2, "").Time
		if seq == 2 || seq == 5 {
			e.RunID, e.TurnID = "", ""
		}
		if seq%2 == 0 {
			e.CorrelationID, e.CausationID, e.TraceParent = "c", fmt.Sprint("c", seq), "00-1-2-03"
		}
		want = append(want, e)
	}
	mustAppend(t, open(t, s, "s1"), want...)
	var got []schemas.Event
	for e, err := range s.Read(ctxOf(t), "s1", 1) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
}

// A log of the first version is read, verified and continued.
func TestLogOfFirstVersionIsContinued(t *testing.T) {
	t.Parallel()
	s, js := newJetStream(t, eventstore.Options{})
	d := &damage{t: t, js: js}
	var hash string
	for seq := uint64(1); seq <= 3; seq++ {
		hash = d.binary(event("s1", seq, "a"), seq-1, hash)
	}
	l := open(t, s, "s1")
	if err := l.SaveSnapshot(ctxOf(t), 1, 2, []byte("state")); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, l, event("s1", 4, "a"), event("s1", 5, "a"))
	if err := l.SaveSnapshot(ctxOf(t), 2, 4, []byte("state")); err != nil {
		t.Fatal(err)
	}
	wantSpans(t, js, "1-1", "2-2", "3-3", "4-5")
	for version := 1; version <= 2; version++ {
		again := open(t, s, "s1")
		if _, seq, err := again.Snapshot(ctxOf(t), version); seq != uint64(2*version) || err != nil {
			t.Errorf("snapshot at %d, %v", seq, err)
		}
		r, err := s.Verify(ctxOf(t), "s1", eventstore.VerifyOptions{Version: version})
		if err != nil || !r.OK() || r.Events != 5 || r.Snapshot != uint64(2*version) {
			t.Errorf("%+v, %v", r, err)
		}
		for from := uint64(1); from <= 5; from++ {
			next := from
			for e, err := range again.Read(ctxOf(t), from) {
				if err != nil || e.Seq != next {
					t.Fatalf("read from %d: event %d, %v", from, e.Seq, err)
				}
				next++
			}
			if next != 6 {
				t.Errorf("read from %d: up to %d", from, next-1)
			}
		}
	}
}
