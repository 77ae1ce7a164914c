package eventstore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// A follower that does not read for a while loses live events from its queue and reads them again.
func TestFollowSlowReader(t *testing.T) {
	t.Parallel()
	s, js := newJetStream(t, eventstore.Options{FollowCheck: time.Hour})
	l := open(t, s, "s1")
	mustAppend(t, l, event("s1", 1, "a"))
	const n = 3000
	seen, err := js.Conn().SubscribeSync("agent.live.s1.event")
	if err != nil {
		t.Fatal(err)
	}
	next := uint64(1)
	for e, err := range s.Follow(ctxOf(t), "s1", 1) {
		if err != nil || e.Seq != next {
			t.Fatalf("event %d, want %d: %v", e.Seq, next, err)
		}
		if e.Seq == 1 {
			for seq := uint64(2); seq <= n; seq++ {
				mustAppend(t, l, event("s1", seq, "a"))
			}
			// All are delivered or dropped before the follower reads on: no later one shows it a gap.
			eventually(t, "all are republished", func() bool { m, _, _ := seen.Pending(); return m == n-1 })
			if err := js.Conn().Flush(); err != nil {
				t.Fatal(err)
			}
		}
		if next++; next > n {
			return
		}
	}
	t.Errorf("follow ended after %d events", next-1)
}

// withoutRepublish returns a store whose server tells followers nothing by itself.
func withoutRepublish(t *testing.T, o eventstore.Options) (*eventstore.Store, jetstream.JetStream) {
	t.Helper()
	s, js := newJetStream(t, o)
	if err := js.DeleteStream(t.Context(), schemas.StreamEvents); err != nil {
		t.Fatal(err)
	}
	cfg := jetstream.StreamConfig{Name: schemas.StreamEvents, Subjects: []string{"agent.evt.*"}, AllowDirect: true}
	if _, err := js.CreateStream(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	return s, js
}

// An event that was stored and never republished is found by the check of a quiet follower.
func TestFollowWithoutRepublish(t *testing.T) {
	t.Parallel()
	s, _ := withoutRepublish(t, eventstore.Options{FollowCheck: 20 * time.Millisecond})
	l := open(t, s, "s1")
	mustAppend(t, l, event("s1", 1, "a"))
	for e, err := range s.Follow(ctxOf(t), "s1", 1) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Seq == 3 {
			return
		}
		mustAppend(t, l, event("s1", e.Seq+1, "a"))
	}
	t.Error("follow ended")
}

// What was stored while the follower was disconnected comes when it is back, also when nothing follows.
func TestFollowReconnects(t *testing.T) {
	t.Parallel()
	f := newFaulty(t, eventstore.Options{FollowCheck: time.Hour})
	l := open(t, f.direct, "s1")
	mustAppend(t, l, event("s1", 1, "a"))
	want := uint64(1)
	for e, err := range f.store.Follow(ctxOf(t), "s1", 1) {
		if err != nil || e.Seq != want {
			t.Fatalf("event %d, want %d: %v", e.Seq, want, err)
		}
		if want++; want == 5 {
			return
		}
		f.proxy.loseDown.Store(true)
		before := f.proxy.lost.Load()
		mustAppend(t, l, event("s1", want, "a"))
		eventually(t, "the live event is lost", func() bool { return f.proxy.lost.Load() > before })
		f.proxy.cut()
	}
	t.Error("follow ended")
}

// A live event that follows one that never came makes the follower read.
func TestFollowGap(t *testing.T) {
	t.Parallel()
	s, js := withoutRepublish(t, eventstore.Options{FollowCheck: time.Hour})
	stream, err := js.Stream(t.Context(), schemas.StreamEvents)
	if err != nil {
		t.Fatal(err)
	}
	l := open(t, s, "s1")
	mustAppend(t, l, event("s1", 1, "a"))
	var got []uint64
	for e, err := range s.Follow(ctxOf(t), "s1", 1) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, e.Seq); e.Seq == 4 {
			break
		}
		if e.Seq > 1 {
			continue
		}
		// After the follower has looked for the head: it is reading up to event 1.
		mustAppendEach(t, l, event("s1", 2, "a"), event("s1", 3, "a"), event("s1", 4, "a"))
		for _, seq := range []uint64{1, 3, 3} { // one that was seen, one with a gap before it, and that again
			m, err := stream.GetMsg(t.Context(), seq)
			if err != nil {
				t.Fatal(err)
			}
			live := &nats.Msg{Subject: "agent.live.s1.event", Header: m.Header, Data: m.Data}
			live.Header.Set(jetstream.SequenceHeader, fmt.Sprint(seq))
			if err := js.Conn().PublishMsg(live); err != nil {
				t.Fatal(err)
			}
		}
	}
	if d := cmp.Diff([]uint64{1, 2, 3, 4}, got); d != "" {
		t.Errorf("sequences (-want +got):\n%s", d)
	}
}
