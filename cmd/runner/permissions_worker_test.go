package main

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/dispatch"
	"github.com/loopbus/loopbus/bus/permissions"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/worker"
)

// TestAWorkerKeepsToItsPermissions has a worker that may do what the documents say for its queue, whose consumer
// somebody else has made, and no more: it announces, takes a call, answers and withdraws.
func TestAWorkerKeepsToItsPermissions(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, map[string][]permissions.Name{"worker": {permissions.Worker}})
	conn := g.conn(admin)
	if err := streams.Setup(t.Context(), conn, streams.Options{}); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.JetStream().CreateConsumer(t.Context(), schemas.StreamTools,
		worker.Consumer(conn.Subjects(), "bash", 0)); err != nil {
		t.Fatal(err)
	}
	denied := make(chan error, 16)
	nc, err := nats.Connect(g.as("worker"), nats.CustomInboxPrefix(inboxPrefix("worker")),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { denied <- err }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	tool := tools.Tool{ToolDefinition: schemas.ToolDefinition{Name: "bash"},
		Execute: func(_ context.Context, call tools.Call) (schemas.ToolResult, error) {
			call.Update(schemas.TextResult("begun"))
			return schemas.TextResult("done"), nil
		}}
	w, err := worker.New(worker.Options{ID: "w1", NC: nc, Tools: []tools.Tool{tool}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(stop)
	eventually(t, "the tool is announced", func() bool { return announced(t, conn, "bash.w1") })

	results, err := conn.NATS().SubscribeSync("agent.cmd.s1.tool_result")
	if err == nil {
		err = conn.NATS().Flush() // calls are published on another connection
	}
	if err != nil {
		t.Fatal(err)
	}
	err = dispatch.New(conn).Dispatch(t.Context(), schemas.ToolRequest{
		Session: "s1", RunID: "r1", TurnID: "t1", Call: "c3", ToolCallID: "x", ToolName: "bash",
		Arguments: json.RawMessage(`{}`), StartSeq: 3,
	}, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := results.NextMsg(deadline); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the call is acknowledged", func() bool {
		s, err := conn.JetStream().Stream(t.Context(), schemas.StreamTools)
		return err == nil && s.CachedInfo().State.Msgs == 0
	})
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if announced(t, conn, "bash.w1") {
		t.Error("the announcement is left")
	}
	select {
	case err := <-denied:
		t.Errorf("the worker tried what it may not: %v", err)
	default:
	}
}

func announced(t *testing.T, conn *bus.Conn, key string) bool {
	t.Helper()
	kv, err := conn.JetStream().KeyValue(t.Context(), schemas.BucketTools)
	if err != nil {
		t.Fatal(err)
	}
	_, err = kv.Get(t.Context(), key)
	if err != nil && !errors.Is(err, jetstream.ErrKeyNotFound) {
		t.Fatal(err)
	}
	return err == nil
}
