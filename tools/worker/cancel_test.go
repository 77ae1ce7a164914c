package worker_test

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/tools/worker"
)

// Whoever may ask a server anything can have it answer where calls are cancelled. An answer without a payload is a
// status, and cancels no call of any session.
func TestAStatusOfAServerCancelsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	tool, begun, pass := gate()
	r.serve(func(ctx context.Context) error { return worker.Serve(ctx, r.client, tool) })
	r.call("gate", `{}`)
	bustest.Within(t, begun)
	subject := "agent.cancel.s1." + r.lastCall()
	seen := r.subscribe("agent.cancel.>")
	for _, asked := range []string{"$JS.API.DIRECT.GET.AGENT_EVT.agent.evt.none", "$JS.API.STREAM.INFO.NONE"} {
		if err := r.client.PublishMsg(&nats.Msg{Subject: asked, Reply: subject}); err != nil {
			t.Fatal(err)
		}
		bustest.Within(t, seen)
	}
	// What comes on the connection of the worker behind them is handled behind them.
	if err := r.client.Publish("agent.cancel.s2.c1", nil); err != nil {
		t.Fatal(err)
	}
	bustest.Within(t, seen)
	close(pass)
	r.wantResult("passed", false)
	r.call("gate", `{}`)
	bustest.Within(t, begun)
	r.wantResult("passed", false)
}
