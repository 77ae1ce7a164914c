//go:build unix

package load_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

const loadWorkers = 4

// TestLoad has sessions call a tool many times in one reply each. The workers start when every session has a full call
// window in the queue, and complete no call before each worker has one.
func TestLoad(t *testing.T) {
	sessions, each := *loadSessions, *loadCalls / *loadSessions
	server := system.StartServer(t, false)
	ended := make(chan string, sessions+rounds)
	r := startRunner(t, server.ClientURL(), model{batch(each), oneByOne(1 + *loadAlone/rounds)}, *loadWindow, ended)
	announce(t, r)
	for i := range sessions {
		prompt(t, r, fmt.Sprintf("s%d", i))
	}
	queued := uint64(sessions * min(each, *loadWindow))
	system.Eventually(t, "every session has its calls in the queue", func() bool { return inQueue(t, r) == queued })

	w := startWorkers(t, r, server.ClientURL(), loadWorkers)
	say(t, r.Conn, subjectServe)
	await(t, w.begun, loadWorkers, "workers have a call")
	begun := time.Now()
	say(t, r.Conn, subjectGo)
	await(t, ended, sessions, "runs have ended")
	took := time.Since(begun)

	lines := w.executions(t)
	checkOnce(t, lines, sessions*each)
	spread, shares := spreadOver(lines), shareAtHalf(lines, sessions)
	t.Logf("%d calls of %d sessions in %s: %.0f calls/s", len(lines), sessions, took.Round(time.Millisecond),
		float64(len(lines))/took.Seconds())
	t.Logf("calls by worker: %v", spread)
	t.Logf("calls begun by a session when half of all had: %d to %d, on average %d", shares[0], shares[len(shares)-1],
		each/2)
	if len(spread) != loadWorkers {
		t.Errorf("%d workers had calls, want %d", len(spread), loadWorkers)
	}
	for id, n := range spread {
		if n < workerSlots { // its slots were full before any call ended
			t.Errorf("worker %s had %d calls", id, n)
		}
	}
	if shares[0] < each/8 {
		t.Errorf("only %d of a session's %d calls had started when half of all calls had", shares[0], each)
	}
	for i := range sessions {
		checkLog(t, r, fmt.Sprintf("s%d", i), each)
	}
	measureLatency(t, r, *loadAlone)
}

// startRunner starts a runner that reports ended runs.
func startRunner(t *testing.T, url string, model driver.Model, window int, ended chan<- string) *system.Runner {
	t.Helper()
	return system.StartRunner(t, url, system.RunnerOptions{Model: model, Host: func(o *host.Options) {
		o.CallWindow = window
		o.OnEvent = func(e schemas.Event, _ *loop.State) {
			if e.Type() == schemas.EventAgentEnd {
				ended <- e.Session
			}
		}
	}})
}

// model makes single calls in the sessions whose names start with aloneSession, and a batch of calls in the others.
type model struct{ batch, alone driver.Model }

// aloneSession is the prefix of the names of sessions that make single calls.
const aloneSession = "alone"

func (m model) Stream(ctx context.Context, req schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	if strings.HasPrefix(req.SessionID, aloneSession) {
		return m.alone.Stream(ctx, req)
	}
	return m.batch.Stream(ctx, req)
}

// oneByOne is a model that calls the tool once in each of n replies.
func oneByOne(n int) driver.Model {
	replies := make([]scripted.Response, n, n+1)
	for i := range replies {
		replies[i] = scripted.Calls("", schemas.ToolCall{ID: fmt.Sprintf("t%d", i), Name: toolTally,
			Arguments: json.RawMessage(`{}`)})
	}
	return scripted.New(append(replies, scripted.Text("done"))...)
}

// batch is a model that calls the tool n times in its first reply.
func batch(n int) driver.Model {
	var calls []schemas.ToolCall
	for i := range n {
		calls = append(calls, schemas.ToolCall{ID: fmt.Sprintf("t%d", i), Name: toolTally, Arguments: json.RawMessage(`{}`)})
	}
	return scripted.New(scripted.Calls("", calls...), scripted.Text("done"))
}

// announce announces the tool before a worker serves it.
func announce(t *testing.T, r *system.Runner) {
	t.Helper()
	raw, err := schemas.Marshal(schemas.ToolAnnouncement{
		ToolDefinition: schemas.ToolDefinition{Name: toolTally, Effect: schemas.EffectUnsafe}, Worker: "ghost",
		Since: "2026-01-01T00:00:00Z",
	})
	if err != nil {
		t.Fatal(err)
	}
	subject := "$KV." + schemas.BucketTools + "." + schemas.AnnouncementKey(toolTally, "ghost")
	if _, err := r.Conn.JetStream().Publish(t.Context(), subject, raw, jetstream.WithMsgTTL(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if err := r.Toolbox.Wait(t.Context(), toolTally); err != nil {
		t.Fatal(err)
	}
}

func prompt(t *testing.T, r *system.Runner, session string) {
	t.Helper()
	bustest.Prompt(t, bustest.Client(t, r.Conn).Session(session), "go")
}

// inQueue returns the number of stored calls that no worker has settled.
func inQueue(t *testing.T, r *system.Runner) uint64 {
	t.Helper()
	stream, err := r.Conn.JetStream().Stream(t.Context(), schemas.StreamTools)
	if err != nil {
		t.Fatal(err)
	}
	return stream.CachedInfo().State.Msgs
}

// execution is a line of the tally.
type execution struct{ worker, session, key string }

// executions returns the executions of all workers, in the order in which they started.
func (w *workers) executions(t *testing.T) (all []execution) {
	t.Helper()
	file, err := os.Open(w.tally)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) != 3 {
			t.Fatalf("line %q", lines.Text())
		}
		all = append(all, execution{f[0], f[1], f[2]})
	}
	return all
}

func checkOnce(t *testing.T, lines []execution, want int) {
	t.Helper()
	seen := map[string]int{}
	for _, l := range lines {
		seen[l.key]++
	}
	for key, n := range seen {
		if n != 1 {
			t.Errorf("%s was executed %d times", key, n)
		}
	}
	if len(seen) != want {
		t.Errorf("%d calls were executed, want %d", len(seen), want)
	}
}

func spreadOver(lines []execution) map[string]int {
	n := map[string]int{}
	for _, l := range lines {
		n[l.worker]++
	}
	return n
}

// shareAtHalf returns how many calls of each session had started when half of all calls had, sorted.
func shareAtHalf(lines []execution, sessions int) []int {
	n := map[string]int{}
	for i := range sessions {
		n[fmt.Sprintf("s%d", i)] = 0
	}
	for _, l := range lines[:len(lines)/2] {
		n[l.session]++
	}
	return slices.Sorted(maps.Values(n))
}

// checkLog checks that every call of a session has one result, without an error.
func checkLog(t *testing.T, r *system.Runner, session string, calls int) {
	t.Helper()
	system.Verify(t, r.Store, session)
	ends := system.DataOf[*schemas.ToolExecutionEnd](system.LogOf(t, r.Store, session))
	for _, end := range ends {
		if end.IsError {
			t.Errorf("session %s, call %s: %s", session, end.Call, end.Result.Content.JoinText())
		}
	}
	if len(ends) != calls {
		t.Errorf("session %s: %d results, want %d", session, len(ends), calls)
	}
}
