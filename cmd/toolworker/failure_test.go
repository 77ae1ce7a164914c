package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/worker"
)

func TestFailures(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	limited := newTool("limited", "", waits)
	limited.TimeoutMs = 50
	r.serve(1, worker.Options{Tools: []tools.Tool{
		newTool("fails", "", func(context.Context, tools.Call) (schemas.ToolResult, error) {
			return schemas.ToolResult{}, errors.New("it is broken")
		}),
		newTool("panics", "", func(context.Context, tools.Call) (schemas.ToolResult, error) { panic("boom") }),
		newTool("waits", "", waits),
		limited,
	}})
	for range 2 { // the worker survives
		r.call("fails", `{}`)
		r.wantText("it is broken", true)
		r.call("panics", `{}`)
		r.wantText("Tool panics panicked: boom", true)
	}
	r.call("limited", `{}`)
	r.wantText("Tool timed out after 0.05 seconds", true)
	req := r.request("waits", `{}`)
	req.TimeoutMs = 60
	r.dispatch(req)
	r.wantText("Tool timed out after 0.06 seconds", true)
	req = r.request("limited", `{}`)
	req.TimeoutMs = 60_000
	r.dispatch(req)
	r.wantText("Tool timed out after 0.05 seconds", true)
	r.settled()
}

func waits(ctx context.Context, _ tools.Call) (schemas.ToolResult, error) {
	<-ctx.Done()
	return schemas.ToolResult{}, tools.Interrupted(ctx)
}

func TestMalformedRequests(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.serve(1, worker.Options{Tools: []tools.Tool{newTool("echo", "", echo)}})
	for name, c := range map[string]struct{ subject, payload, want string }{
		"no JSON":    {"agent.tool.echo.s1.c7", "{", "The request of this call was malformed: "},
		"wrong type": {"agent.tool.echo.s1.c8", `{"session":1}`, "The request of this call was malformed: "},
		"another session": {"agent.tool.echo.s1.c9", valid(t, r),
			"it is for session s1, call c2, but was sent for session s1, call c9"},
	} {
		id := strings.ReplaceAll(strings.TrimPrefix(c.subject, "agent.tool.echo."), ".", "/")
		if _, err := r.conn.JetStream().Publish(r.ctx(), c.subject, []byte(c.payload), jetstream.WithMsgID(id)); err != nil {
			t.Fatal(err)
		}
		if got, _ := r.answer(); !got.IsError || !strings.Contains(got.Result.Content.JoinText(), c.want) {
			t.Errorf("%s: %v %q", name, got.IsError, got.Result.Content.JoinText())
		}
	}
	r.settled()
}

// A call of which not even the session and the call are legal cannot be answered: at its tenth delivery it is kept.
func TestCallsThatCannotBeAnswered(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	dead := make(chan string, 1)
	sub, err := r.conn.NATS().Subscribe("agent.dead.>", func(m *nats.Msg) { dead <- m.Subject })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	if _, err := r.conn.JetStream().Publish(r.ctx(), "agent.tool.echo.s1.no=token", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	for range 9 {
		if err := r.lose("echo").Nak(); err != nil {
			t.Fatal(err)
		}
	}
	r.serve(1, worker.Options{Tools: []tools.Tool{newTool("echo", "", echo)}})
	if got := bustest.Within(t, dead); got != "agent.dead.AGENT_TOOL.s1" {
		t.Errorf("dead letter at %s", got)
	}
	r.settled()
}

func valid(t *testing.T, r *rig) string {
	t.Helper()
	raw, err := schemas.Marshal(r.request("echo", `{}`))
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestAToolThatDoesNotStopIsLeftBehind answers for a tool that ignores its context, so that its run can go on and its
// place is free for the next call.
func TestAToolThatDoesNotStopIsLeftBehind(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	release, calls := make(chan struct{}), make(chan string, 2)
	deaf := newTool("deaf", "", func(_ context.Context, call tools.Call) (schemas.ToolResult, error) {
		calls <- call.ID
		<-release
		call.Update(schemas.TextResult("still here"))
		return schemas.TextResult("too late"), nil
	})
	deaf.TimeoutMs = 30
	r.serve(1, worker.Options{Tools: []tools.Tool{deaf}, AbandonAfter: 50 * time.Millisecond})
	for range 2 {
		r.call("deaf", `{}`)
		bustest.Within(t, calls)
		r.wantText("Tool timed out after 0.03 seconds. It did not stop when it was told to: it may still be running", true)
	}
	r.settled()
	close(release)
}

// A search that takes longer than the worker allows is ended, with the limit in the text; 0 is no limit.
func TestReadTimeout(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	file, err := os.Create(filepath.Join(root, "long"))
	if err == nil {
		_, err = file.WriteString(strings.Repeat("x", 70<<10))
	}
	if err == nil {
		err = errors.Join(file.Truncate(1<<40), file.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t)
	r.start(new(bustest.Log), "--id", "w9", "--root", root, "--tools", "grep,find,read", "--read-timeout", "50ms")
	bustest.Eventually(t, "grep is announced", func() bool { return r.announcement("grep", "w9") != nil })
	r.call("grep", `{"pattern":"y"}`)
	r.wantText("Tool timed out after 0.05 seconds", true)
	r.call("find", `{"pattern":"lon*"}`)
	r.wantText("long", false)
	r.settled()
	r.start(new(bustest.Log), "--id", "w8", "--root", root, "--tools", "ls", "--read-timeout", "0")
	bustest.Eventually(t, "ls is announced", func() bool { return r.announcement("ls", "w8") != nil })
	for name, want := range map[string]bool{"grep": true, "ls": false} {
		id := map[string]string{"grep": "w9", "ls": "w8"}[name]
		if got := strings.Contains(string(r.announcement(name, id).Value()), `"timeoutMs":50`); got != want {
			t.Errorf("%s is announced with the limit: %t", name, got)
		}
	}
	if strings.Contains(string(r.announcement("ls", "w8").Value()), "timeoutMs") {
		t.Error("ls is announced with a limit")
	}
}

// Somebody has a server answer into a tool's queue, under a call that a session waits for. The worker answers nothing:
// the session would take it for the call's result.
func TestAnAnswerOfAServerIsNoCall(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.serve(1, worker.Options{Tools: []tools.Tool{newTool("echo", "", echo)}})
	for _, subject := range []string{"$JS.API.STREAM.INFO.AGENT_EVT", "$JS.API.DIRECT.GET.AGENT_EVT.agent.evt.none"} {
		if err := r.conn.NATS().PublishRequest(subject, "agent.tool.echo.s2.c9", nil); err != nil {
			t.Fatal(err)
		}
	}
	r.dispatch(r.request("echo", `{}`)) // behind them
	if got, _ := r.answer(); got.Call == "c9" {
		t.Errorf("answered %+v", got)
	}
}
