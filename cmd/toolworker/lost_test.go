package main

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/worker"
)

// lose takes the next call of a tool as a worker would that dies with it.
func (r *rig) lose(tool string) jetstream.Msg {
	r.t.Helper()
	js := r.conn.JetStream()
	consumer, err := js.CreateOrUpdateConsumer(r.ctx(), schemas.StreamTools,
		worker.Consumer(r.conn.Subjects(), tool, r.ackWait))
	if err != nil {
		r.t.Fatal(err)
	}
	call, err := consumer.Next(jetstream.FetchContext(r.ctx()))
	if err != nil {
		r.t.Fatal(err)
	}
	return call
}

func TestLostCalls(t *testing.T) {
	t.Parallel()
	const unknown = "The outcome of this call is unknown: the worker that ran it was lost before it answered. " +
		"It was not run again because the tool is not safe to repeat. Check what happened before calling it again."
	for _, c := range []struct {
		name       string
		tool, asks schemas.Effect
		again      bool
	}{
		{"unsafe by default", "", "", false},
		{"unsafe", schemas.EffectUnsafe, schemas.EffectUnsafe, false},
		{"unsafe tool, whatever is asked", schemas.EffectUnsafe, schemas.EffectReadOnly, false},
		{"the asker knows better", schemas.EffectReadOnly, schemas.EffectUnsafe, false},
		{"read-only", schemas.EffectReadOnly, schemas.EffectReadOnly, true},
		{"idempotent", schemas.EffectIdempotent, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.ackWait = shortWait
			req := r.request("echo", `{}`)
			req.Effect = c.asks
			r.dispatch(req)
			r.lose("echo")
			var runs atomic.Int32
			r.serve(1, worker.Options{Tools: []tools.Tool{newTool("echo", c.tool,
				func(context.Context, tools.Call) (schemas.ToolResult, error) {
					runs.Add(1)
					return schemas.TextResult("ran"), nil
				})}})
			if c.again {
				r.wantText("ran", false)
			} else {
				r.wantText(unknown, true)
			}
			r.settled()
			if got := runs.Load() == 1; got != c.again {
				t.Errorf("ran %d times", runs.Load())
			}
		})
	}
}

// A server that was killed may deliver a call once more and call it the first time. It is not begun again, and its
// answer does not go before that of the first.
func TestADeliveryThatTheServerHasForgotten(t *testing.T) {
	t.Parallel()
	r, g := newRig(t), newGate()
	r.serve(2, worker.Options{Tools: []tools.Tool{newTool("gate", "", g.execute)}})
	req := r.call("gate", `{}`)
	bustest.Within(t, g.begun)
	data, err := schemas.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.conn.JetStream().Publish(r.ctx(), r.conn.Subjects().Tool("gate", req.Session, string(req.Call)),
		data); err != nil {
		t.Fatal(err)
	}
	consumer, err := r.conn.JetStream().Consumer(r.ctx(), schemas.StreamTools, "gate")
	if err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "the call is delivered again", func() bool {
		info, err := consumer.Info(r.ctx())
		return err == nil && info.NumAckPending == 2
	})
	g.pass <- struct{}{}
	r.wantText("passed", false)
	r.wantText(schemas.TextOutcomeUnknown, true)
	r.settled()
	if len(g.begun) != 0 {
		t.Error("the call was executed twice")
	}
}

// A call that takes longer than its acknowledgement may wait is not given to another worker.
func TestLongCallsAreKept(t *testing.T) {
	t.Parallel()
	r, g := newRig(t), newGate()
	r.ackWait = shortWait
	tool := newTool("gate", schemas.EffectReadOnly, g.execute)
	r.serve(1, worker.Options{ID: "w1", Tools: []tools.Tool{tool}})
	r.serve(1, worker.Options{ID: "w2", Tools: []tools.Tool{tool}})
	r.call("gate", `{}`)
	bustest.Within(t, g.begun)
	select {
	case <-g.begun:
		t.Error("the call was executed twice")
	case <-time.After(2 * shortWait):
	}
	g.pass <- struct{}{}
	r.wantText("passed", false)
	r.settled()
}
