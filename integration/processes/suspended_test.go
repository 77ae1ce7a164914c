//go:build unix

package processes_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/bus/inbox"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/integration/internal/wire"
	"github.com/loopbus/loopbus/schemas"
)

// modelCalls counts model calls by the spans that a runner sends when they end.
type modelCalls struct {
	server *httptest.Server
	n      atomic.Int64
}

func newModelCalls(t *testing.T) *modelCalls {
	t.Helper()
	c := new(modelCalls)
	c.server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		c.n.Add(int64(bytes.Count(body, []byte("chat scripted"))))
	}))
	t.Cleanup(c.server.Close)
	return c
}

// slowReply is how long a reply takes at the runner that is suspended: on a busy machine it must not end before that.
const slowReply = 15 * time.Second

// Replies for sessions whose next step after the current reply is a model call, and for those whose next step is a tool
// call.
var (
	slowScript = script{
		"more": {text("and more")}, "model": {slow(int(slowReply.Milliseconds()))},
		"tool": {slowCall(int(slowReply.Milliseconds()), note("a")), text("done")},
	}
	quickScript = script{
		"more": {text("and more")}, "model": {text("done")}, "tool": {calls(bash(note("a"))), text("done")},
	}
)

// TestASuspendedRunner suspends a runner for longer than the takeover time, and resumes it when another one has
// finished its sessions. The runner notices the loss when it verifies its sessions, or at its first append: in some
// sessions before it would call the model again, in the others before it would dispatch a call.
func TestASuspendedRunner(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.toolworker("w1", nil)
	asked, at := newModelCalls(t), watch()
	suspended := w.runner("suspended", slowScript, at, "--otlp", asked.server.URL, "--takeover",
		inbox.DefaultTakeover.String())
	begun := time.Now()
	sessions := w.keepAwake(3)
	if err := suspended.Freeze(); err != nil {
		t.Fatal(err)
	}
	since := time.Now()
	w.runner("other", quickScript, nil, "--takeover", inbox.DefaultTakeover.String())
	for _, s := range sessions {
		w.until(s, "another runner's event", func(e schemas.Event) bool { return e.Source == source("other") })
	}
	took := time.Since(since)
	t.Logf("all sessions went on elsewhere %s after SIGSTOP", took.Round(time.Millisecond))
	if took > inbox.DefaultTakeover+slack {
		t.Errorf("the sessions continued elsewhere only %s after SIGSTOP", took)
	}
	for _, s := range sessions {
		w.ended(s)
	}
	<-time.After(time.Until(begun.Add(slowReply))) // the first replies end while the runner is suspended
	acks, commits, dispatched := at.count(passAck), at.count(passCommit), at.count(passDispatch)
	if err := suspended.Thaw(); err != nil {
		t.Fatal(err)
	}
	w.rejoined("suspended")
	w.wantLost(suspended, sessions)
	suspended.awaitReady()
	if n := at.count(passAck) - acks; n > 0 {
		t.Errorf("the runner acknowledged %d messages after it was suspended", n)
	}
	if n := at.count(passCommit) - commits; n > len(sessions) {
		t.Errorf("the runner tried to append %d commits to %d sessions", n, len(sessions))
	}
	if n := at.count(passDispatch) - dispatched; n > 0 {
		t.Errorf("the runner dispatched %d calls", n)
	}
	for _, s := range sessions {
		o := outcomeOf(w.ended(s))
		if len(o.Reasons) != 1 || o.Reasons[0] != schemas.EndNoToolCalls || o.Interrupted != 1 ||
			!slices.Equal(o.Resumed, []string{whileStreaming}) {
			t.Errorf("session %s: %+v", s, o)
		}
	}
	if d := cmp.Diff(map[string]int{"a": 3}, w.counted("count")); d != "" {
		t.Errorf("executions (-want +got):\n%s", d)
	}
	if err := suspended.Terminate(); err != nil { // at its end the runner sends its buffered spans
		t.Fatal(err)
	}
	<-suspended.Done()
	if n := asked.n.Load(); n != int64(len(sessions)) {
		t.Errorf("the suspended runner called the model %d times in %d sessions", n, len(sessions))
	}
}

// TestASuspendedRunnerKeepsNothingFromOthers kills the runner that took over from a suspended one. At that time the
// suspended one has resumed and still waits for a silent model. Its heartbeats must not prevent a third runner from
// driving the session.
func TestASuspendedRunnerKeepsNothingFromOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	silent := script{"hang": {slow(3_600_000)}}
	first := w.runner("first", silent, nil, "--idle-timeout", "0", "--takeover", inbox.DefaultTakeover.String())
	w.prompt("s1", "hang")
	w.until("s1", "its reply", bustest.Nth(2, schemas.EventMessageStart))
	if err := first.Freeze(); err != nil {
		t.Fatal(err)
	}
	second := w.runner("second", silent, nil, "--idle-timeout", "0", "--takeover", inbox.DefaultTakeover.String())
	w.until("s1", "its reply elsewhere", bustest.Nth(3, schemas.EventMessageStart))
	if err := first.Thaw(); err != nil {
		t.Fatal(err)
	}
	w.rejoined("first")
	if err := second.Kill(); err != nil {
		t.Fatal(err)
	}
	since := time.Now()
	w.until("s1", "its reply once more", bustest.Nth(4, schemas.EventMessageStart))
	if took := time.Since(since); took > inbox.DefaultTakeover+slack {
		t.Errorf("the session continued only %s after SIGKILL", took)
	}
}

// slack is what a busy machine may add to a bound.
const slack = 20 * time.Second

// keepAwake starts n sessions of each kind and returns when the replies of all of them are streaming.
func (w *world) keepAwake(each int) (sessions []string) {
	w.t.Helper()
	for _, next := range []string{"model", "tool"} {
		for i := range each {
			s := fmt.Sprintf("%s%d", next, i)
			sessions = append(sessions, s)
			w.prompt(s, next)
			w.until(s, "its reply", bustest.Nth(2, schemas.EventMessageStart))
			if next == "model" {
				bustest.Command(w.t, w.session(s), &schemas.FollowUp{Input: client.Text("more")})
				w.until(s, "the follow-up", bustest.Nth(2, schemas.EventCommandAccepted))
			}
		}
	}
	return sessions
}

// wantLost waits until a runner has logged for each session that it lost it, because an append was refused or because
// the partition has moved. It checks that the runner logs nothing else about them, except an append that was in flight
// when the runner was suspended.
func (w *world) wantLost(c *command, sessions []string) {
	w.t.Helper()
	refused, moved := says("session lost: another runner has it"), says("session left to another runner")
	lost, underWay := func(e entry) bool { return refused(e) || moved(e) }, says("append without an answer, finding out")
	settled := says("command dropped, it is not in the inbox any more") // by the other runner
	of := func(s string) []entry {
		return c.logged(func(e entry) bool { return e["session"] == s && !underWay(e) && !settled(e) })
	}
	system.Eventually(w.t, c.name+" finds its sessions lost", func() bool {
		return !slices.ContainsFunc(sessions, func(s string) bool { return len(of(s)) == 0 })
	})
	for _, s := range sessions {
		for _, line := range of(s) {
			if !lost(line) || line["seq"] == nil {
				w.t.Errorf("about session %s the runner logged %v", s, line)
			}
		}
	}
	if errors := c.logged(func(e entry) bool { return e["level"] == "ERROR" }); len(errors) > 0 {
		w.t.Errorf("the runner logged failures: %v", errors)
	}
}

// TestARunnerIsSuspendedBeforeItDispatches suspends a runner when the events before a dispatch have just been stored.
func TestARunnerIsSuspendedBeforeItDispatches(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("go", "")
	w.toolworker("w1", nil)
	at := newTap(point{what: schemas.EventToolExecutionStart, n: 2, after: true}, wire.Pass, func(c *command) {
		if err := c.Freeze(); err != nil {
			t.Error(err)
		}
	})
	suspended := w.runner("suspended", twoCalls, at)
	w.prompt("s1", "go")
	w.await(at)
	w.runner("other", twoCalls, nil)
	w.ended("s1")
	if err := suspended.Thaw(); err != nil {
		t.Fatal(err)
	}
	w.rejoined("suspended")
	w.wantLost(suspended, []string{"s1"})
	if n := at.count(passDispatch) + at.count(passAck); n > 0 {
		t.Errorf("the suspended runner sent %d calls and acknowledgements", n)
	}
	if d := cmp.Diff(map[string]int{"a": 1, "b": 1}, w.counted("count")); d != "" {
		t.Errorf("executions (-want +got):\n%s", d)
	}
	wantExplained(t, w.ended("s1"), "suspended", "other")
}

// rejoined waits until a runner reads partitions.
func (w *world) rejoined(id string) {
	w.t.Helper()
	system.Eventually(w.t, id+" reads partitions", func() bool { return len(w.partitionsOf(id)) > 0 })
}

// partitionsOf returns the partitions of one runner. Any runner may answer a request, so it sends requests until that
// one does.
func (w *world) partitionsOf(id string) []int {
	w.t.Helper()
	for {
		msg, err := w.conn.NATS().Request(w.conn.Subjects().Prefix()+".svc.runner.status", nil, time.Second)
		if err != nil {
			return nil
		}
		var status struct {
			ID         string `json:"id"`
			Partitions []int  `json:"partitions"`
		}
		if err := json.Unmarshal(msg.Data, &status); err != nil {
			w.t.Fatal(err)
		}
		if status.ID == id {
			return status.Partitions
		}
	}
}
