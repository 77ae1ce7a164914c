package live_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/live"
	"github.com/loopbus/loopbus/schemas"
)

func delta(session string, event uint64, events ...schemas.StreamEvent) schemas.Update {
	return schemas.Update{Session: session, Event: event, Time: time.Now(), Source: "/loopbus/runner/r1",
		Data: &schemas.MessageUpdate{MessageID: "m1", AssistantMessageEvents: events}}
}

func text(block int, s string) schemas.StreamEvent {
	return schemas.StreamEvent{Type: schemas.StreamTextDelta, ContentIndex: block, Delta: s}
}

// collector collects the updates that are published for a session.
type collector struct {
	mu    sync.Mutex
	got   []schemas.Update
	bytes int
}

func listen(t testing.TB, c *bus.Conn, session string) *collector {
	t.Helper()
	h := &collector{}
	sub, err := c.NATS().Subscribe(c.Subjects().LiveUpdate(session), func(m *nats.Msg) {
		u, err := schemas.DecodeUpdate(m.Header, m.Data)
		if err != nil {
			t.Error(err)
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		h.got = append(h.got, u)
		h.bytes += len(m.Data)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	if err := c.NATS().Flush(); err != nil {
		t.Fatal(err)
	}
	return h
}

// flat describes what was published: number, type, block and delta of each stream event.
func (h *collector) flat() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []string
	for _, u := range h.got {
		switch d := u.Data.(type) {
		case *schemas.MessageUpdate:
			var parts []string
			for _, e := range d.AssistantMessageEvents {
				parts = append(parts, fmt.Sprintf("%s[%d]%s", e.Type, e.ContentIndex, e.Delta))
			}
			out = append(out, fmt.Sprintf("%d:%s", u.N, strings.Join(parts, " ")))
		case *schemas.ToolExecutionUpdate:
			out = append(out, fmt.Sprintf("%d:%s", u.N, d.PartialResult.Content.JoinText()))
		}
	}
	return out
}

func (h *collector) expect(t testing.TB, want ...string) {
	t.Helper()
	bustest.Eventually(t, fmt.Sprintf("%d updates", len(want)), func() bool { return len(h.flat()) >= len(want) })
	if got := h.flat(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestUpdatesAreJoinedUntilSettled(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	h := listen(t, c, "s1")
	u := live.New(c, live.Options{Interval: time.Hour})
	ctx := context.Background()
	u.Update(ctx, delta("s1", 3, text(0, "first")))
	h.expect(t, "1:text_delta[0]first") // at once
	u.Update(ctx, delta("s1", 3, text(0, "a")))
	u.Update(ctx, delta("s1", 3, text(0, "b"), text(0, "c")))
	u.Update(ctx, delta("s1", 3, schemas.StreamEvent{Type: schemas.StreamTextEnd, Content: "firstabc"}))
	u.Update(ctx, delta("s1", 3, text(1, "d")))
	u.Update(ctx, delta("s1", 3, text(2, "e"), text(2, "f")))
	u.Flush(ctx, "s1", 3)
	h.expect(t, "1:text_delta[0]first",
		"2:text_delta[0]abc text_end[0] text_delta[1]d text_delta[2]ef")
	u.Flush(ctx, "s1", 3) // nothing is buffered
	u.Update(ctx, delta("s1", 9, text(0, "next event")))
	h.expect(t, "1:text_delta[0]first",
		"2:text_delta[0]abc text_end[0] text_delta[1]d text_delta[2]ef", "1:text_delta[0]next event")
}

func TestUpdatesGoOutAfterTheInterval(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	h := listen(t, c, "s1")
	u := live.New(c, live.Options{Interval: 20 * time.Millisecond})
	for _, s := range []string{"a", "b", "c"} {
		u.Update(context.Background(), delta("s1", 3, text(0, s)))
	}
	h.expect(t, "1:text_delta[0]a", "2:text_delta[0]bc")
	u.Update(context.Background(), delta("s1", 3, text(0, "d")))
	bustest.Eventually(t, "the third piece", func() bool { return len(h.flat()) == 3 })
}

func TestUpdatesOfToolsReplaceEachOther(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	h := listen(t, c, "s1")
	u := live.New(c, live.Options{Interval: time.Hour})
	for _, s := range []string{"10 %", "20 %", "30 %"} {
		u.Update(context.Background(), schemas.Update{Session: "s1", Event: 5, Time: time.Now(), Source: "/w",
			Data: &schemas.ToolExecutionUpdate{ToolCallID: "x", ToolName: "bash", PartialResult: schemas.TextResult(s)}})
	}
	u.Flush(context.Background(), "s1", 5)
	h.expect(t, "1:10 %", "2:30 %")
}

func TestUpdatesAsTheyComeAndWhenMuchIsHeld(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	for name, o := range map[string]live.Options{
		"as they come":     {Interval: -1},
		"much is buffered": {Interval: time.Hour, MaxBuffered: 1},
	} {
		t.Run(name, func(t *testing.T) {
			session := strings.ReplaceAll(name, " ", "-")
			h := listen(t, c, session)
			u := live.New(c, o)
			for _, s := range []string{"a", "b", "c"} {
				u.Update(context.Background(), delta(session, 3, text(0, s)))
			}
			h.expect(t, "1:text_delta[0]a", "2:text_delta[0]b", "3:text_delta[0]c")
		})
	}
}

func TestUpdatesConcurrently(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	h := listen(t, c, "s1")
	u := live.New(c, live.Options{Interval: time.Millisecond})
	const writers, each = 8, 200
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range each {
				u.Update(context.Background(), delta("s1", 3, text(0, "#")))
			}
		})
	}
	wg.Wait()
	u.Flush(context.Background(), "s1", 3)
	bustest.Eventually(t, "every delta", func() bool {
		return strings.Count(strings.Join(h.flat(), ""), "#") == writers*each
	})
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, up := range h.got {
		if up.N != uint64(i+1) {
			t.Fatalf("update %d has number %d", i, up.N)
		}
	}
}

// The bytes of a message's updates are in proportion to the message, however many deltas it comes in.
func BenchmarkUpdates(b *testing.B) {
	c := bustest.New(b)
	u := live.New(c, live.Options{})
	const deltas = 10_000
	for n := 0; b.Loop(); n++ {
		h := listen(b, c, fmt.Sprintf("s%d", n))
		for range deltas {
			u.Update(context.Background(), delta(fmt.Sprintf("s%d", n), 3, text(0, "token")))
		}
		u.Flush(context.Background(), fmt.Sprintf("s%d", n), 3)
		bustest.Eventually(b, "all have come", func() bool {
			return strings.Count(strings.Join(h.flat(), ""), "token") == deltas
		})
		h.mu.Lock()
		b.ReportMetric(float64(h.bytes)/deltas, "B/delta")
		b.ReportMetric(float64(len(h.got)), "pieces")
		h.mu.Unlock()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/deltas, "ns/delta")
}

// Updates that the server would refuse are said once, however many there are.
func TestUpdatesOverThePayloadLimitWarnOnce(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	h := listen(t, c, "s1")
	var log bytes.Buffer
	u := live.New(c, live.Options{Interval: -1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	large := strings.Repeat("x", int(c.NATS().MaxPayload())+1)
	call := &schemas.ToolCall{Arguments: []byte(`"` + large + `"`)}
	u.Update(context.Background(), delta("s1", 19, schemas.StreamEvent{Type: schemas.StreamToolCallEnd, ToolCall: call}))
	if !strings.Contains(log.String(), fmt.Sprintf("bytes=%d ", len(large)+2)) { // those of the arguments alone
		t.Errorf("it was encoded: %.500s", log.String())
	}
	for i := range 10 {
		u.Update(context.Background(), schemas.Update{Session: "s1", Event: uint64(i + 1), Time: time.Now(), Source: "/w",
			Data: &schemas.ToolExecutionUpdate{ToolCallID: "x", ToolName: "bash", PartialResult: schemas.TextResult(large)}})
	}
	u.Update(context.Background(), delta("s1", 20, text(0, "small")))
	h.expect(t, "1:text_delta[0]small")
	if n := strings.Count(log.String(), "level=WARN"); n != 1 || strings.Contains(log.String(), "xxx") {
		t.Errorf("%d warnings: %.500s", n, log.String())
	}
}
