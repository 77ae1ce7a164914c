package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/dispatch"
	"github.com/loopbus/loopbus/bus/registry"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/worker"
)

// versioned is a tool that answers with its version and who serves it.
func versioned(version, says string) tools.Tool {
	tool := newTool("search", schemas.EffectReadOnly, func(context.Context, tools.Call) (schemas.ToolResult, error) {
		return schemas.TextResult(says), nil
	})
	tool.Version = version
	return tool
}

func (r *rig) callOf(queue schemas.ToolQueue) {
	r.t.Helper()
	req := r.request(queue.Tool, `{}`)
	req.Version, req.Workspace = queue.Version, queue.Workspace
	r.dispatch(req)
}

// TestVersionsAndWorkspacesAreServedSideBySide has one worker serve two versions and the unversioned tool, and another
// one serve a workspace: each call reaches the one it is for.
func TestVersionsAndWorkspacesAreServedSideBySide(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.serve(2, worker.Options{ID: "w1", Tools: []tools.Tool{versioned("", "plain"), versioned("1", "one"),
		versioned("2", "two")}})
	r.serve(2, worker.Options{ID: "w2", Workspace: "host",
		Tools: []tools.Tool{versioned("", "plain, host"), versioned("2", "two, host")}})
	for queue, want := range map[schemas.ToolQueue]string{
		{Tool: "search"}: "plain", {Tool: "search", Version: "1"}: "one", {Tool: "search", Version: "2"}: "two",
		{Tool: "search", Workspace: "host"}: "plain, host", {Tool: "search", Version: "2", Workspace: "host"}: "two, host",
	} {
		r.callOf(queue)
		r.wantText(want, false)
	}
	var a schemas.ToolAnnouncement
	if err := json.Unmarshal(r.announcement("search=2=host", "w2").Value(), &a); err != nil || a.Version != "2" ||
		a.Workspace != "host" {
		t.Errorf("announced: %+v, %v", a, err)
	}
	r.settled()
}

// TestACallIsExecutedForItsOwnQueueOnly sends requests to a queue that they do not name.
func TestACallIsExecutedForItsOwnQueueOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.serve(1, worker.Options{Tools: []tools.Tool{versioned("2", "executed")}})
	req := r.request("search", `{}`)
	req.Version = "1"
	data, err := schemas.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.conn.JetStream().Publish(r.ctx(), r.conn.Subjects().Tool("search=2", req.Session, string(req.Call)),
		data, jetstream.WithMsgID(req.IdempotencyKey())); err != nil {
		t.Fatal(err)
	}
	r.wantText("The request of this call was malformed: it is for tool search version 1, but was sent for tool "+
		"search version 2", true)
}

// TestCallsOfAVersionWaitForItsWorkers has a call of a version that nobody serves wait while another one is served, and
// answered by a runner after a while.
func TestCallsOfAVersionWaitForItsWorkers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	old := r.serve(1, worker.Options{ID: "w1", Tools: []tools.Tool{versioned("1", "one")}})
	if err := old.stop(); err != nil {
		t.Fatal(err)
	}
	r.serve(1, worker.Options{ID: "w2", Tools: []tools.Tool{versioned("2", "two")}})
	box := registry.NewToolbox(r.conn, nil)
	t.Cleanup(box.Close)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	unserved := dispatch.NewUnserved(r.conn, dispatch.UnservedOptions{ID: "r1", After: shortWait, Toolbox: box})
	go func() { defer close(done); unserved.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	r.callOf(schemas.ToolQueue{Tool: "search", Version: "1"})
	r.wantText("no worker serves tool search version 1", true)
	r.callOf(schemas.ToolQueue{Tool: "search", Version: "2"})
	r.wantText("two", false)
}

// TestAToolHasItsOwnLimitOfResults gives one tool of two a limit below that of the worker.
func TestAToolHasItsOwnLimitOfResults(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	long := func(context.Context, tools.Call) (schemas.ToolResult, error) {
		return schemas.TextResult(strings.Repeat("x", 20_000)), nil
	}
	limited := newTool("limited", "", long)
	limited.MaxResultBytes = 4096
	r.serve(1, worker.Options{Tools: []tools.Tool{limited, newTool("free", "", long)}})
	r.call("limited", `{}`)
	got, msg := r.answer()
	if text := got.Result.Content.JoinText(); len(msg.Data) > 4096 || !strings.Contains(text, " bytes left out") {
		t.Errorf("%d bytes: %.100s", len(msg.Data), text)
	}
	r.call("free", `{}`)
	if got, _ := r.answer(); len(got.Result.Content.JoinText()) != 20_000 {
		t.Errorf("the other tool's result has %d characters", len(got.Result.Content.JoinText()))
	}
}

// TestAnnotationsStandInForTheEffect has a call come a second time to a tool that says by a hint only that it changes
// nothing.
func TestAnnotationsStandInForTheEffect(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	yes := true
	hinted, unsafe := newTool("hinted", "", echo), newTool("unsafe", schemas.EffectUnsafe, echo)
	hinted.Annotations = &schemas.ToolAnnotations{ReadOnlyHint: &yes}
	unsafe.Annotations = hinted.Annotations
	r.ackWait = shortWait
	for _, tool := range []tools.Tool{hinted, unsafe} {
		r.call(tool.Name, `{"a":1}`)
		r.lose(tool.Name)
	}
	r.serve(1, worker.Options{Tools: []tools.Tool{hinted, unsafe}})
	want := map[string]string{"hinted": `{"a":1}`, "unsafe": schemas.TextOutcomeUnknown}
	for range want {
		got, _ := r.answer()
		if text := got.Result.Content.JoinText(); text != want[got.ToolName] {
			t.Errorf("%s: %q", got.ToolName, text)
		}
	}
}
