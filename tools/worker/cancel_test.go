package worker_test

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/tools/worker"
)

// A client can send a request to a NATS server with a cancellation subject as its reply subject. The reply may be a
// status message without a payload, which looks like a cancellation: it must not cancel a call.
func TestServerStatusIsNoCancellation(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	tool, begun, pass := gate()
	r.serve(func(ctx context.Context) error { return worker.Serve(ctx, r.client, tool) })
	r.call("gate", `{}`)
	bustest.Within(t, begun)
	subject := "agent.cancel.s1." + r.lastCall()
	seen := r.subscribe("agent.cancel.>")
	for _, request := range []string{"$JS.API.DIRECT.GET.AGENT_EVT.agent.evt.none", "$JS.API.STREAM.INFO.NONE"} {
		if err := r.client.PublishMsg(&nats.Msg{Subject: request, Reply: subject}); err != nil {
			t.Fatal(err)
		}
		bustest.Within(t, seen)
	}
	// A server acknowledges an acknowledgement without a header.
	if err := r.client.PublishMsg(&nats.Msg{Subject: subject}); err != nil {
		t.Fatal(err)
	}
	bustest.Within(t, seen)
	// One connection delivers in order: the worker receives this message after the replies.
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
