package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/schemas"
)

// longWindow is the context window of the model of long sessions, in tokens.
const longWindow = 8000

// long is a long session in the store of a NATS server, and the host that drives it.
type long struct {
	tb     testing.TB
	conn   *bus.Conn
	store  *eventstore.Store
	host   *host.Host
	random *rand.Rand
	n      int          // number of commands
	read   atomic.Int64 // events that were read from logs

	appended    atomic.Int64 // events that were appended, in all sessions
	compactions atomic.Int64 // successful compactions, in all sessions
}

func newLong(tb testing.TB, change func(o *host.Options)) *long {
	tb.Helper()
	l := &long{tb: tb, random: rand.New(rand.NewPCG(12, 12))}
	l.conn = system.Connect(tb, system.StartServer(tb, false).ClientURL(), "long")
	if err := streams.Setup(tb.Context(), l.conn, streams.Options{}); err != nil {
		tb.Fatal(err)
	}
	var err error
	if l.store, err = eventstore.New(l.conn.Events(), eventstore.Options{}); err != nil {
		tb.Fatal(err)
	}
	l.host = l.newHost(change)
	return l
}

func (l *long) newHost(change func(o *host.Options)) *host.Host {
	o := host.Options{
		Open: func(ctx context.Context, session string) (host.SessionLog, error) {
			log, err := l.store.Open(ctx, session)
			return countedLog{log, l}, err
		},
		Deps: driver.Deps{Model: l, Source: "/loopbus/runner/long"}, Toolbox: noTools{},
		Defaults: schemas.RunConfig{Model: schemas.ModelRef{ID: "m"}, Compaction: schemas.CompactionPolicy{Enabled: true}},
		Window:   func(schemas.ModelRef) int64 { return longWindow },
	}
	if change != nil {
		change(&o)
	}
	return host.New(o)
}

// countedLog counts the events that are read and appended, and the compactions among them.
type countedLog struct {
	host.SessionLog
	long *long
}

func (c countedLog) Append(ctx context.Context, e schemas.Event) error {
	err := c.SessionLog.Append(ctx, e)
	if err == nil {
		c.long.appended.Add(1)
		if end, ok := e.Data.(*schemas.CompactionEnd); ok && end.ErrorMessage == "" {
			c.long.compactions.Add(1)
		}
	}
	return err
}

func (c countedLog) Read(ctx context.Context, from uint64) iter.Seq2[schemas.Event, error] {
	return func(yield func(schemas.Event, error) bool) {
		for e, err := range c.SessionLog.Read(ctx, from) {
			c.long.read.Add(1)
			if !yield(e, err) {
				return
			}
		}
	}
}

type noTools struct{}

func (noTools) Definitions(context.Context) ([]schemas.ToolDefinition, error) { return nil, nil }

// words returns n words made of syllables, which compress about as well as natural text.
func (l *long) words(n int) string {
	var b strings.Builder
	for range n {
		for range 1 + l.random.IntN(3) {
			b.WriteByte("bcdfghlmnprstvw"[l.random.IntN(15)])
			b.WriteByte("aeiou"[l.random.IntN(5)])
		}
		b.WriteByte(' ')
	}
	return b.String()
}

// Stream answers at once.
func (l *long) Stream(context.Context, schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	return func(yield func(schemas.StreamEvent, error) bool) {
		yield(schemas.StreamEvent{Type: schemas.StreamDone, Message: &schemas.AssistantMessage{
			Content: schemas.Contents{schemas.Text{Text: l.words(150)}}, StopReason: schemas.StopStop,
		}}, nil)
	}
}

func (l *long) do(session string, data schemas.CommandData) {
	l.tb.Helper()
	l.n++
	c := schemas.Command{ID: fmt.Sprintf("01J9ZK3V5Q8R7T6Y5W4X3%05d", l.n), Session: session, Data: data}
	if err := l.host.Deliver(l.tb.Context(), c, nil); err != nil {
		l.tb.Fatal(err)
	}
}

func (l *long) prompt(session string) {
	l.tb.Helper()
	l.do(session, &schemas.Prompt{Input: schemas.Input{Text: l.words(150)}})
}

// compacted runs the first session until its context was compacted this often, and returns the number of events in its
// log.
func (l *long) compacted(session string, times int64) (events int64) {
	l.tb.Helper()
	for l.compactions.Load() < times {
		l.prompt(session)
	}
	return l.appended.Load()
}

// snapshot saves the state of a session, and returns it with the number of stored bytes.
func (l *long) snapshot(session string) (state []byte, stored int) {
	l.tb.Helper()
	folded := &loop.State{Session: session}
	for e, err := range l.store.Read(l.tb.Context(), session, 1) {
		if err == nil {
			err = folded.Apply(e)
		}
		if err != nil {
			l.tb.Fatal(err)
		}
	}
	state, err := schemas.Marshal(folded)
	if err != nil {
		l.tb.Fatal(err)
	}
	log, err := l.store.Open(l.tb.Context(), session)
	if err != nil {
		l.tb.Fatal(err)
	}
	defer log.Close()
	if err := log.SaveSnapshot(l.tb.Context(), loop.FoldVersion, folded.Seq, state); err != nil {
		l.tb.Fatal(err)
	}
	bucket, err := l.conn.JetStream().KeyValue(l.tb.Context(), schemas.BucketSnapshots)
	if err != nil {
		l.tb.Fatal(err)
	}
	keys, err := bucket.Keys(l.tb.Context())
	if err != nil {
		l.tb.Fatal(err)
	}
	for _, key := range keys {
		if entry, err := bucket.Get(l.tb.Context(), key); err == nil && strings.Contains(key, session) {
			stored = len(entry.Value())
		}
	}
	return state, stored
}

// heap returns the memory of a state, in bytes.
func heap(tb testing.TB, raw []byte) uint64 {
	tb.Helper()
	const copies = 200
	used := func() uint64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := used()
	states := make([]*loop.State, copies)
	for i := range states {
		states[i] = new(loop.State)
		if err := json.Unmarshal(raw, states[i]); err != nil {
			tb.Fatal(err)
		}
	}
	after := used()
	runtime.KeepAlive(states)
	return (after - before) / copies
}

// TestALongSessionIsAsLargeAsItsContext compares a session that was compacted a hundred times with a fresh one with the
// same context: its state, its snapshot and its memory may be at most one and a half times as large. Then it wakes the
// session: the number of events that are read in addition to the snapshot must not depend on the length of the log.
func TestALongSessionIsAsLargeAsItsContext(t *testing.T) {
	if !bustest.Alone(t) {
		return
	}
	often := func(o *host.Options) { o.SnapshotEvery = 50 }
	l := newLong(t, often)
	events := l.compacted("old", 100)
	l.do("fresh", &schemas.Branch{Session: "old"})
	old, oldStored := l.snapshot("old")
	fresh, freshStored := l.snapshot("fresh")
	oldHeap, freshHeap := heap(t, old), heap(t, fresh)
	t.Logf("%d events, %d commands", events, l.n)
	for _, c := range []struct {
		what       string
		old, fresh uint64
	}{
		{"bytes of state", uint64(len(old)), uint64(len(fresh))},
		{"bytes of snapshot", uint64(oldStored), uint64(freshStored)},
		{"bytes of memory", oldHeap, freshHeap},
	} {
		ratio := float64(c.old) / float64(c.fresh)
		t.Logf("%s: %d, fresh %d, ratio %.2f", c.what, c.old, c.fresh, ratio)
		if ratio > 1.5 {
			t.Errorf("%s: %.2f times that of a fresh session with the same context", c.what, ratio)
		}
	}
	read := int64(0)
	for range 10 {
		l.prompt("old")
		l.host = l.newHost(often)
		l.read.Store(0)
		l.prompt("old")
		n := l.read.Load()
		if read += n; n > 100 {
			t.Errorf("%d of %d events were read", n, events)
		}
	}
	if read == 0 {
		t.Error("nothing was ever read beside a snapshot: the reads are not counted")
	}
}

// BenchmarkWaking opens a session from the store, as a runner does that takes it over: a fresh session, and one that
// was compacted a thousand times and has a context of the same size.
func BenchmarkWaking(b *testing.B) {
	l := newLong(b, nil)
	events := l.compacted("old", 1000)
	l.do("fresh", &schemas.Branch{Session: "old"})
	l.prompt("fresh")
	for _, session := range []string{"fresh", "old"} {
		b.Run(session, func(b *testing.B) {
			l.tb = b
			l.read.Store(0)
			for b.Loop() {
				h := l.newHost(nil)
				c := schemas.Command{ID: "01J9ZK3V5Q8R7T6Y5W4X300001", Session: session, Data: &schemas.Abort{}}
				if err := h.Deliver(b.Context(), c, nil); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(l.read.Load())/float64(b.N), "events-read")
		})
	}
	b.Logf("%d events", events)
}

// BenchmarkCompactionBesideItsModel measures a compaction without its model call: the model answers at once.
func BenchmarkCompactionBesideItsModel(b *testing.B) {
	l := newLong(b, func(o *host.Options) { o.Defaults.Compaction.Enabled = false })
	for b.Loop() {
		b.StopTimer()
		for range 4 {
			l.prompt("s1")
		}
		b.StartTimer()
		l.do("s1", new(schemas.Compact))
	}
}
