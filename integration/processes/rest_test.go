//go:build unix

package processes_test

import (
	"context"
	"flag"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"regexp"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/inbox"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

var (
	atRest   = flag.Int("atrest.sessions", 300, "how many sessions TestAtRest brings to rest")
	atRestBy = flag.Duration("atrest.watch", time.Second, "how long it then watches the runner's use of the processor")
)

const (
	cacheAge = 500 * time.Millisecond
	warmUp   = 500  // sessions before the first measurement
	woken    = 200  // number of sessions at rest that the test wakes
	indexed  = 1024 // bytes per session in the index of sessions: it needs about 700; a session in memory needs 15,000
	// maxInHand bounds the number of concurrent goroutines, so that the warm-up reaches the maximum: the runtime never
	// frees the half kilobyte that it needs for each.
	maxInHand = 128
)

// opened counts the open logs of a runner, and the events that it reads from them.
type opened struct{ logs, read atomic.Int64 }

// countedLog is a log that opened counts.
type countedLog struct {
	host.SessionLog
	o     *opened
	close func()
}

func (o *opened) wrap(open host.OpenLog) host.OpenLog {
	return func(ctx context.Context, session string) (host.SessionLog, error) {
		log, err := open(ctx, session)
		if err != nil {
			return nil, err
		}
		o.logs.Add(1)
		return &countedLog{log, o, sync.OnceFunc(func() { o.logs.Add(-1) })}, nil
	}
}

func (l *countedLog) Read(ctx context.Context, from uint64) iter.Seq2[schemas.Event, error] {
	return func(yield func(schemas.Event, error) bool) {
		for e, err := range l.SessionLog.Read(ctx, from) {
			l.o.read.Add(1)
			if !yield(e, err) {
				return
			}
		}
	}
}

func (l *countedLog) Close() {
	l.close()
	l.SessionLog.Close()
}

// definitions is a toolbox with one tool, which no worker serves.
type definitions []schemas.ToolDefinition

func (d definitions) Definitions(context.Context) ([]schemas.ToolDefinition, error) { return d, nil }

// resting is a runner in this process. Its server is a separate process, so that measurements show the runner only.
type resting struct {
	*world
	runner *system.Runner
	opened opened
}

func newResting(t *testing.T) *resting {
	t.Helper()
	r := &resting{world: newWorldOn(t, newNATSServer(t).url(), streams.Options{})}
	model, err := scripted.NewScripts(scripted.Options{},
		scripted.Script{Match: regexp.MustCompile("^wait$"), Responses: []scripted.Response{
			scripted.Calls("", schemas.ToolCall{Name: "hold"}), scripted.Text("done")}},
		scripted.Script{Loop: true, Responses: []scripted.Response{scripted.Text("hi")}})
	if err != nil {
		t.Fatal(err)
	}
	r.runner = system.StartRunner(t, r.url, system.RunnerOptions{
		Model: model, Streams: streams.Options{Partitions: partitions},
		Inbox: inbox.Options{RunnerID: "r1", MaxInFlight: maxInHand},
		Host: func(o *host.Options) {
			o.Open, o.Toolbox = r.opened.wrap(o.Open), definitions{{Name: "hold"}}
			o.SnapshotEvery, o.CacheAge = 8, cacheAge
		},
	})
	return r
}

// bring starts n sessions and returns when all are at rest: every second one waits for a tool, the others are idle.
func (r *resting) bring(prefix string, n int) {
	r.t.Helper()
	calls := r.stored(schemas.StreamTools)
	var stored []jetstream.PubAckFuture
	for i := range n {
		payload := []byte("rest")
		if i%2 == 0 {
			payload = []byte("wait")
		}
		ack, err := r.conn.JetStream().PublishAsync(r.conn.Subjects().Command(nameOf(prefix, i), schemas.CommandPrompt),
			payload)
		if err != nil {
			r.t.Fatal(err)
		}
		stored = append(stored, ack)
	}
	for _, ack := range stored {
		select {
		case <-ack.Ok():
		case err := <-ack.Err():
			r.t.Fatalf("send a prompt: %v", err)
		}
	}
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for left := uint64(1); left > 0; { // the timeout of go test bounds this loop
		<-tick.C
		s, err := r.conn.JetStream().Stream(r.t.Context(), schemas.StreamCommands)
		if err != nil {
			r.t.Fatal(err)
		}
		left = s.CachedInfo().State.Msgs
	}
	if calls = r.stored(schemas.StreamTools) - calls; calls != uint64(n+1)/2 {
		r.t.Fatalf("%d calls were dispatched in %d sessions", calls, n)
	}
}

// forget waits until all sessions in memory have reached their maximum age, and then evicts them.
func (r *resting) forget(prefix string) {
	r.t.Helper()
	<-time.After(cacheAge)
	r.bring(prefix, 2)
	if n := r.opened.logs.Load(); n > 2 {
		r.t.Errorf("%d sessions are in memory after their maximum age", n)
	}
}

// use is the resource usage of a process at rest.
type use struct {
	goroutines int
	heap       uint64  // bytes
	cpu        float64 // part of one processor
}

func measure() use {
	runtime.GC()
	runtime.GC()              // frees the contents of pools
	<-time.After(time.Second) // for the collector to finish
	u := use{goroutines: runtime.NumGoroutine(), heap: heap()}
	before := system.Spent()
	<-time.After(*atRestBy)
	u.cpu = float64(system.Spent()-before) / float64(*atRestBy)
	return u
}

// heap returns the bytes of all objects on the heap, unreachable ones included.
func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// wantGoroutines checks that at some moment at most this many goroutines run. Work of that moment has some; a leak has
// them always.
func wantGoroutines(t *testing.T, most int) {
	t.Helper()
	for until := time.Now().Add(system.Deadline); runtime.NumGoroutine() > most; <-time.After(10 * time.Millisecond) {
		if time.Now().After(until) {
			var all strings.Builder
			_ = pprof.Lookup("goroutine").WriteTo(&all, 1) // a strings.Builder takes everything
			t.Errorf("%d goroutines stay, want at most %d:\n%s", runtime.NumGoroutine(), most, &all)
			return
		}
	}
}

// wantHeap checks that one of several measurements of the heap is at most this many bytes. A single measurement has
// garbage and objects of running goroutines; a leak is in all of them.
func wantHeap(t *testing.T, most uint64) {
	t.Helper()
	var least uint64 = math.MaxUint64
	until := time.Now().Add(system.Deadline)
	for least > most {
		if time.Now().After(until) {
			t.Errorf("%.1f MiB of heap stay, want at most %.1f", mib(least), mib(most))
			return
		}
		runtime.GC()
		runtime.GC()
		least = min(least, heap())
	}
}

// TestAtRest brings many sessions to rest, half of them waiting for a tool, and compares the resource usage of the
// runner with its usage without sessions. Then it wakes some of them.
func TestAtRest(t *testing.T) {
	if !bustest.Alone(t) {
		return
	}
	r := newResting(t)
	r.bring("warm", warmUp)
	r.forget("before")
	before := measure()

	since := time.Now()
	r.bring("s", *atRest)
	t.Logf("%d sessions brought to rest in %s", *atRest, time.Since(since).Round(time.Millisecond))
	r.forget("after")
	r.wantSettled()
	wantGoroutines(t, before.goroutines+5) // what is settled may still have work to end
	after := measure()
	t.Logf("without them: %d goroutines, %.1f MiB of heap, %.2f %% of a processor", before.goroutines, mib(before.heap),
		100*before.cpu)
	t.Logf("with them:    %d goroutines, %.1f MiB of heap, %.2f %% of a processor", after.goroutines, mib(after.heap),
		100*after.cpu)
	wantHeap(t, before.heap+1<<20+indexed*uint64(*atRest))
	if after.cpu > before.cpu+0.1 {
		t.Errorf("%.0f %% more of a processor", 100*(after.cpu-before.cpu))
	}
	r.wake("s", *atRest)
}

func mib(bytes uint64) float64 { return float64(bytes) / (1 << 20) }

func nameOf(prefix string, i int) string { return fmt.Sprintf("%s%d", prefix, i) }

// wantSettled checks that no message of the inbox is in flight or undelivered.
func (r *resting) wantSettled() {
	r.t.Helper()
	if n := r.runner.Inbox.InFlight(); n > 0 {
		r.t.Errorf("%d messages are in flight", n)
	}
	stream, err := r.conn.JetStream().Stream(r.t.Context(), schemas.StreamCommands)
	if err != nil {
		r.t.Fatal(err)
	}
	for info := range stream.ListConsumers(r.t.Context()).Info() {
		if info.NumAckPending > 0 || info.NumPending > 0 {
			r.t.Errorf("consumer %s has %d messages without acknowledgement, %d to deliver", info.Name, info.NumAckPending,
				info.NumPending)
		}
	}
}

// wake wakes some of the sessions, one after the other: with the result if the session waits for a tool, else with a
// prompt. It checks that each continues from its snapshot.
func (r *resting) wake(prefix string, n int) {
	r.t.Helper()
	read := r.opened.read.Load()
	var latencies []time.Duration
	for _, i := range rand.New(rand.NewPCG(1, 1)).Perm(n)[:min(woken, n)] {
		latencies = append(latencies, r.wakeOne(nameOf(prefix, i), i%2 == 0))
	}
	slices.Sort(latencies)
	at := func(part float64) time.Duration {
		return latencies[int(part*float64(len(latencies)-1))].Round(time.Microsecond)
	}
	r.t.Logf("from a message to the session's next event: median %s, 99 %% within %s", at(0.5), at(0.99))
	if n := r.opened.read.Load() - read; n > 0 {
		r.t.Errorf("%d events were read although the snapshots have them", n)
	}
}

// wakeOne returns how long it takes from a message's publication to the arrival of the session's next event.
func (r *resting) wakeOne(session string, waits bool) time.Duration {
	r.t.Helper()
	kind, payload := schemas.CommandPrompt, "again"
	if waits {
		kind, payload = schemas.CommandToolResult, r.answer(session)
	}
	live, err := r.conn.NATS().SubscribeSync(r.conn.Subjects().LiveEvent(session))
	if err == nil {
		err = r.conn.NATS().Flush()
	}
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = live.Unsubscribe() }()
	since := time.Now()
	r.publish(session, kind, "", payload)
	if _, err := live.NextMsg(system.Deadline); err != nil {
		r.t.Fatalf("session %s does not continue: %v", session, err)
	}
	return time.Since(since)
}

// answer returns the result that a session waits for.
func (r *resting) answer(session string) string {
	r.t.Helper()
	for _, e := range system.LogOf(r.t, r.store, session) {
		if d, ok := e.Data.(*schemas.ToolExecutionStart); ok {
			raw, err := schemas.Marshal(schemas.ToolResponse{
				Call: schemas.NewCallKey(e.Seq), ToolCallID: d.ToolCallID, ToolName: d.ToolName, Result: schemas.TextResult("held"),
				Nonce: d.Nonce,
			})
			if err != nil {
				r.t.Fatal(err)
			}
			return string(raw)
		}
	}
	r.t.Fatalf("session %s does not wait for a result", session)
	return ""
}
