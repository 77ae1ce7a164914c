package eventstoretest

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

func testEmpty(t *testing.T, s Store) {
	ctx := contextFor(t)
	l := mustOpen(t, s, "s1")
	if err := l.Flush(ctx); err != nil {
		t.Errorf("flush with nothing to flush: %v", err)
	}
	if got := collect(t, l.Read(ctx, 1)); len(got) != 0 {
		t.Errorf("the log has %d events", len(got))
	}
	if got := collect(t, s.Read(ctx, "s1", 1)); len(got) != 0 {
		t.Errorf("the store has %d events", len(got))
	}
	if state, seq, err := l.Snapshot(ctx, 1); state != nil || seq != 0 || err != nil {
		t.Errorf("snapshot is %q at %d, %v", state, seq, err)
	}
	if seq, err := s.At(ctx, "s1", time.Now()); seq != 0 || err != nil {
		t.Errorf("at: %d, %v", seq, err)
	}
	for info, err := range s.Sessions(ctx) {
		t.Errorf("listed %v, %v", info, err)
	}
	mustVerify(t, s, "s1", 0)
}

// everyKind is a log with payloads, attributes and text that are easily damaged on the way.
func everyKind(session string) []schemas.Event {
	awkward := "ü \"quoted\" 100%\n<tag> \u2028 end"
	data := []schemas.EventData{
		&schemas.CommandAccepted{CommandID: "c1", Kind: schemas.CommandPrompt, Data: json.RawMessage(`{"text":"a<b"}`)},
		&schemas.AgentStart{Config: &schemas.RunConfig{Model: schemas.ModelRef{ID: "m"}, SystemPrompt: awkward},
			Inputs: []string{"c1"}},
		&schemas.TurnStart{},
		&schemas.MessageStart{MessageID: "m1", Role: schemas.RoleUser},
		&schemas.ToolExecutionStart{ToolCallID: "t 1", ToolName: "bash", Args: json.RawMessage(`{"z":1,"a":"ü"}`)},
		&schemas.ToolExecutionEnd{ToolCallID: "t 1", ToolName: "bash", Call: "c5", Result: schemas.TextResult(awkward),
			IsError: true},
		&schemas.QueueUpdate{Steering: []string{"c2"}, FollowUp: []string{}},
		&schemas.ErrorEvent{Code: "x", Message: awkward, Recoverable: true},
		&schemas.TurnEnd{MessageID: "m1", ToolResults: []string{}},
		&schemas.AgentEnd{Messages: []string{"m1"}, TerminationReason: schemas.EndNoToolCalls, Turns: 1},
	}
	events := make([]schemas.Event, len(data))
	for i, d := range data {
		events[i] = schemas.Event{
			Session: session, Seq: uint64(i + 1), Time: started.Add(time.Duration(i) * time.Millisecond),
			Source: "/loopbus/runner/" + awkward, RunID: awkward, TurnID: "t", CorrelationID: "c1", CausationID: awkward,
			TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", Data: d,
		}
	}
	return events
}

func testRoundTrip(t *testing.T, s Store) {
	want := everyKind("s1")
	mustAppend(t, mustOpen(t, s, "s1"), want...)
	if d := diff(want, collect(t, s.Read(contextFor(t), "s1", 1))); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
	mustVerify(t, s, "s1", uint64(len(want)))
}

func testBigPayload(t *testing.T, s Store) {
	var want []schemas.Event
	for i, size := range []int{10, 255 << 10, 257 << 10, 1500 << 10, 300 << 10, 1} {
		e := simple("s1", uint64(i+1), "/a")
		e.Data = &schemas.ErrorEvent{Code: "big", Message: strings.Repeat("ab€ ", size/6+1)}
		want = append(want, e)
	}
	l := mustOpen(t, s, "s1")
	mustAppend(t, l, want...)
	ctx := contextFor(t)
	if d := diff(want, collect(t, l.Read(ctx, 1))); d != "" {
		t.Errorf("events differ: %.300s", d)
	}
	if d := diff(want, collect(t, s.Read(ctx, "s1", 1))); d != "" {
		t.Errorf("events differ: %.300s", d)
	}
	mustVerify(t, s, "s1", uint64(len(want)))
}

func testManyAppends(t *testing.T, s Store) {
	want := simples("s1", 1, 1500)
	mustAppend(t, mustOpen(t, s, "s1"), want...)
	if d := diff(want, collect(t, s.Read(contextFor(t), "s1", 1))); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
}

func testWrongSequence(t *testing.T, s Store) {
	ctx := contextFor(t)
	l := mustOpen(t, s, "s1")
	mustAppend(t, l, simples("s1", 1, 3)...)
	for _, seq := range []uint64{0, 1, 3, 5, 1 << 60} {
		err := l.Append(ctx, simple("s1", seq, "/a"))
		if err == nil || errors.Is(err, schemas.ErrConflict) {
			t.Errorf("append of sequence %d after 3: %v", seq, err)
		}
	}
	if err := l.Append(ctx, simple("s2", 4, "/a")); err == nil {
		t.Error("an event of another session was taken")
	}
	mustAppend(t, l, simple("s1", 4, "/a"))
	mustVerify(t, s, "s1", 4)
}

func testIllegalSession(t *testing.T, s Store) {
	ctx := contextFor(t)
	for _, id := range []string{"", "a.b", "*", ">", "a b", "ü", strings.Repeat("x", 65)} {
		if l, err := s.Open(ctx, id); !errors.Is(err, schemas.ErrSubject) {
			t.Errorf("open %q: %v, %v", id, l, err)
		}
		for _, err := range s.Read(ctx, id, 1) {
			if !errors.Is(err, schemas.ErrSubject) {
				t.Errorf("read %q: %v", id, err)
			}
		}
		if _, err := s.At(ctx, id, started); !errors.Is(err, schemas.ErrSubject) {
			t.Errorf("at %q: %v", id, err)
		}
		if _, err := s.Verify(ctx, id, eventstore.VerifyOptions{}); !errors.Is(err, schemas.ErrSubject) {
			t.Errorf("verify %q: %v", id, err)
		}
	}
}

func testConflict(t *testing.T, s Store) {
	ctx := contextFor(t)
	a, b := mustOpen(t, s, "s1"), mustOpen(t, s, "s1")
	mustAppend(t, a, simple("s1", 1, "/a"), simple("s1", 2, "/a"))
	err := appendFlush(ctx, b, simple("s1", 1, "/b"))
	var conflict *schemas.ConflictError
	if !errors.Is(err, schemas.ErrConflict) || !errors.As(err, &conflict) || conflict.Session != "s1" ||
		conflict.Seq != 1 {
		t.Fatalf("append by the second writer: %v", err)
	}
	// For good: also where the sequence would be right.
	for seq := uint64(1); seq <= 3; seq++ {
		if err := b.Append(ctx, simple("s1", seq, "/b")); !errors.Is(err, schemas.ErrConflict) {
			t.Errorf("append %d after the conflict: %v", seq, err)
		}
	}
	if err := b.Flush(ctx); !errors.Is(err, schemas.ErrConflict) {
		t.Errorf("flush after the conflict: %v", err)
	}
	mustAppend(t, a, simple("s1", 3, "/a"))
	mustVerify(t, s, "s1", 3)
}

func testConfirm(t *testing.T, s Store) {
	ctx := contextFor(t)
	begun := time.Now()
	a, b := mustOpen(t, s, "s1"), mustOpen(t, s, "s1")
	if err := a.Confirm(ctx, time.Now()); err != nil {
		t.Fatalf("confirm an empty log: %v", err)
	}
	mustAppend(t, a, simples("s1", 1, 3)...)
	for _, since := range []time.Time{begun, time.Now()} {
		if err := a.Confirm(ctx, since); err != nil {
			t.Fatalf("confirm the writer's log: %v", err)
		}
	}
	for seq := uint64(4); seq < 40; seq++ { // with events on their way
		if err := errors.Join(a.Append(ctx, simple("s1", seq, "/a")), a.Confirm(ctx, time.Now())); err != nil {
			t.Fatalf("append and confirm %d: %v", seq, err)
		}
	}
	var conflict *schemas.ConflictError
	if err := b.Confirm(ctx, time.Now()); !errors.As(err, &conflict) || conflict.Session != "s1" || conflict.Seq != 1 {
		t.Fatalf("confirm the other's log: %v", err)
	}
	if err := b.Append(ctx, simple("s1", 1, "/b")); !errors.Is(err, schemas.ErrConflict) {
		t.Errorf("append after the conflict: %v", err)
	}
	mustAppend(t, a, simple("s1", 40, "/a"))
	mustVerify(t, s, "s1", 40)
}

func testReopen(t *testing.T, s Store) {
	for i := uint64(1); i <= 5; i++ {
		l := mustOpen(t, s, "s1")
		mustAppend(t, l, simples("s1", 2*i-1, 2*i)...)
		l.Close()
	}
	if d := diff(simples("s1", 1, 10), collect(t, s.Read(contextFor(t), "s1", 1))); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
	mustVerify(t, s, "s1", 10)
}

func testClosed(t *testing.T, s Store) {
	ctx := contextFor(t)
	l := mustOpen(t, s, "s1")
	mustAppend(t, l, simple("s1", 1, "/a"))
	l.Close()
	l.Close()
	if err := l.Append(ctx, simple("s1", 2, "/a")); !errors.Is(err, eventstore.ErrClosed) {
		t.Errorf("append: %v", err)
	}
	if err := l.Flush(ctx); !errors.Is(err, eventstore.ErrClosed) {
		t.Errorf("flush: %v", err)
	}
	mustVerify(t, s, "s1", 1)
}

// testInterleavings lets three writers append in random order; a writer that meets a conflict opens again. Exactly what
// was flushed without an error is in the log, in that order.
func testInterleavings(t *testing.T, s Store) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	ctx := contextFor(t)
	sources := []string{"/a", "/b", "/c"}
	logs := make([]*eventstore.Log, len(sources))
	seqs := make([]uint64, len(sources))
	var want []schemas.Event
	conflicts := 0
	for range 150 {
		i := random.IntN(len(sources))
		if logs[i] == nil {
			logs[i] = mustOpen(t, s, "s1")
			seqs[i] = uint64(len(want))
		}
		e := simple("s1", seqs[i]+1, sources[i])
		err := appendFlush(ctx, logs[i], e)
		switch current := seqs[i] == uint64(len(want)); {
		case err == nil && current:
			want = append(want, e)
			seqs[i]++
		case errors.Is(err, schemas.ErrConflict) && !current:
			conflicts++
			logs[i].Close()
			logs[i] = nil
		default:
			t.Fatalf("append %s by %s with the log at %d: %v", e.ID(), e.Source, len(want), err)
		}
	}
	if conflicts == 0 {
		t.Error("no two writers ever met")
	}
	if d := diff(want, collect(t, s.Read(ctx, "s1", 1))); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
	mustVerify(t, s, "s1", uint64(len(want)))
}
