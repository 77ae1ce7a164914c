package host_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

// A session that is loaded from a snapshot shows its model the calls that the model made, and its context is no larger.
func TestASnapshotKeepsArguments(t *testing.T) {
	t.Parallel()
	const arguments = `{"html":"<b>a && b</b>\u2028"}`
	var last schemas.ModelRequest
	model := looptest.ModelFunc(func(_ context.Context, req schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		if last = req; len(req.Messages) > 1 {
			return looptest.Say("done"), nil
		}
		reply := looptest.CallTool("t1")
		reply.Content[0] = schemas.ToolCall{ID: "t1", Name: "echo", Arguments: json.RawMessage(arguments)}
		return reply, nil
	})
	small := func(o *host.Options) { o.SnapshotEvery = 1 }
	r := looptest.New(t, model, small)
	r.Deliver("p1", looptest.Prompt("go"))
	r.Deliver(looptest.AnswerTo(r.Tools.Take(t), "ok"))
	before := last.Messages[:2:2]
	log, err := r.Store.Open(t.Context(), "s1")
	if err != nil {
		t.Fatal(err)
	}
	if _, seq, err := log.Snapshot(t.Context(), loop.FoldVersion); err != nil || seq == 0 {
		t.Fatalf("snapshot at %d, %v", seq, err)
	}
	r.Host = r.NewHost(model, small)
	r.Deliver("p2", looptest.Prompt("on"))
	after := last.Messages[:2:2]
	if got := after[1].(*schemas.AssistantMessage).Content.ToolCalls()[0].Arguments; string(got) != arguments {
		t.Errorf("the model is shown %s", got)
	}
	if a, b := after.Size(), before.Size(); a != b {
		t.Errorf("the context has %d bytes, before %d", a, b)
	}
}
