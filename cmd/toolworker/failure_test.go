package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/worker"
)

func TestFailures(t *testing.T) {
	r := newRig(t)
	limited := newTool("limited", "", waits)
	limited.TimeoutMs = 50
	r.serve(1, worker.Options{Tools: []tools.Tool{
		newTool("fails", "", func(context.Context, tools.Call, func(schemas.ToolResult)) (schemas.ToolResult, error) {
			return schemas.ToolResult{}, errors.New("it is broken")
		}),
		newTool("panics", "", func(context.Context, tools.Call, func(schemas.ToolResult)) (schemas.ToolResult, error) { panic("boom") }),
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

func waits(ctx context.Context, _ tools.Call, _ func(schemas.ToolResult)) (schemas.ToolResult, error) {
	<-ctx.Done()
	return schemas.ToolResult{}, tools.Interrupted(ctx)
}

func TestMalformedRequests(t *testing.T) {
	r := newRig(t)
	r.serve(1, worker.Options{Tools: []tools.Tool{newTool("echo", "", echo)}})
	for name, c := range map[string]struct{ subject, payload, want string }{
		"no JSON":         {"agent.tool.echo.s1.c7", "{", "The request of this call was malformed: "},
		"wrong type":      {"agent.tool.echo.s1.c8", `{"session":1}`, "The request of this call was malformed: "},
		"another session": {"agent.tool.echo.s1.c9", valid(t, r), "it is for session s1, call c2, but was sent for session s1, call c9"},
	} {
		if _, err := r.conn.JetStream().Publish(r.ctx(), c.subject, []byte(c.payload)); err != nil {
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
	if got := within(t, dead); got != "agent.dead.AGENT_TOOL.s1" {
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
	r := newRig(t)
	release, calls := make(chan struct{}), make(chan string, 2)
	deaf := newTool("deaf", "", func(_ context.Context, call tools.Call, update func(schemas.ToolResult)) (schemas.ToolResult, error) {
		calls <- call.ID
		<-release
		update(schemas.TextResult("still here"))
		return schemas.TextResult("too late"), nil
	})
	deaf.TimeoutMs = 30
	r.serve(1, worker.Options{Tools: []tools.Tool{deaf}, AbandonAfter: 50 * time.Millisecond})
	for range 2 {
		r.call("deaf", `{}`)
		within(t, calls)
		r.wantText("Tool timed out after 0.03 seconds. It did not stop when it was told to: it may still be running", true)
	}
	r.settled()
	close(release)
}
