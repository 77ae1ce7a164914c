package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/dispatch"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/worker"
)

type sum struct {
	A int `json:"a"`
	B int `json:"b,omitempty" jsonschema:"default=1"`
}

func add(_ context.Context, call tools.Call, p sum) (schemas.ToolResult, error) {
	call.Update(schemas.TextResult("adding"))
	return schemas.TextResult(fmt.Sprint(p.A + p.B)), nil
}

// Serve creates the consumer, announces the tool, executes its calls and publishes their updates.
func TestServe(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	tool, err := tools.Typed(schemas.ToolDefinition{Name: "add", Effect: schemas.EffectReadOnly}, add)
	if err != nil {
		t.Fatal(err)
	}
	updates := r.subscribe("agent.live.s1.update")
	stop := r.serve(func(ctx context.Context) error { return worker.Serve(ctx, r.client, tool) })
	announced := r.announced("add")
	if string(announced.Parameters) != string(tool.Parameters) || !strings.HasPrefix(announced.Worker, "w-") {
		t.Errorf("announced %+v", announced)
	}
	r.call("add", `{"a":2}`)
	r.wantResult("3", false)
	if u := bustest.Within(t, updates); !strings.Contains(string(u.Data), "adding") {
		t.Errorf("update %s", u.Data)
	}
	r.call("add", `{}`)
	if got := r.result(); !got.IsError || !strings.Contains(got.Result.Content.JoinText(),
		"must have required properties a") {
		t.Errorf("result %+v", got)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if n := r.announcements(); n != 0 {
		t.Errorf("%d announcements are left", n)
	}
	r.empty()
}

func TestServeReportsWhatIsMissing(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	client := connect(t, server)
	tool, err := tools.Typed(schemas.ToolDefinition{Name: "add"}, add)
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Serve(t.Context(), client, tool); err == nil ||
		!strings.Contains(err.Error(), "start a runner there first") {
		t.Errorf("without streams: %v", err)
	}
	if err := worker.Serve(t.Context(), nil, tool); err == nil {
		t.Error("served without a connection")
	}
	setup(t, server)
	if err := worker.Serve(t.Context(), client); err == nil || !strings.Contains(err.Error(), "no tools given") {
		t.Errorf("without tools: %v", err)
	}
}

func TestNewRefusesParametersThatCannotBeChecked(t *testing.T) {
	t.Parallel()
	tool, err := tools.Typed(schemas.ToolDefinition{Name: "add"}, add)
	if err != nil {
		t.Fatal(err)
	}
	tool.Parameters = json.RawMessage(`{"anyOf":[{"$ref":"#"}]}`)
	_, err = worker.New(worker.Options{ID: "w1", NC: connect(t, startServer(t)), Tools: []tools.Tool{tool}})
	if err == nil || !strings.Contains(err.Error(),
		"tool add: tool parameters cannot be used: the schema refers to itself") {
		t.Errorf("got %v", err)
	}
}

// A worker creates its consumer again when another client deletes it.
func TestServeRecreatesDeletedConsumer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.serve(func(ctx context.Context) error { return worker.Serve(ctx, r.client, r.count()) })
	r.announced("count")
	if err := r.js.DeleteConsumer(t.Context(), schemas.StreamTools, "count"); err != nil {
		t.Fatal(err)
	}
	r.call("count", `{}`)
	r.wantResult("1", false)
}

// A worker pulls no more calls than it has free slots; the other calls wait in the queue.
func TestServePullsCallsOnlyForFreeSlots(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	tool, begun, pass := gate()
	w, err := worker.New(worker.Options{ID: "w1", NC: r.client, Tools: []tools.Tool{tool}, Concurrency: 2})
	if err != nil {
		t.Fatal(err)
	}
	stop := r.serve(w.Run)
	for range 3 {
		r.call("gate", `{}`)
	}
	bustest.Within(t, begun)
	bustest.Within(t, begun)
	bustest.Eventually(t, "one call waits in the queue", func() bool {
		c, err := r.js.Consumer(t.Context(), schemas.StreamTools, "gate")
		return err == nil && c.CachedInfo().NumPending == 1 && c.CachedInfo().NumAckPending == 2
	})
	pass <- struct{}{}
	bustest.Within(t, begun)
	r.wantResult("passed", false)

	// A cancelled call ends, and a call that runs when the worker stops is finished.
	key := schemas.CallKey(r.lastCall())
	if err := dispatch.New(r.conn).Cancel(t.Context(), "s1", key, ""); err != nil {
		t.Fatal(err)
	}
	r.wantResult("Operation aborted", true)
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	bustest.Eventually(t, "the announcement is withdrawn", func() bool { return r.announcements() == 0 })
	pass <- struct{}{}
	r.wantResult("passed", false)
	if err := bustest.Within(t, stopped); err != nil {
		t.Error(err)
	}
	r.empty()
}

// Workers come and go while calls of an unsafe tool arrive: each is executed once, and none is nak'd, which would
// make its outcome unknown.
func TestServeLosesNoCallWhenWorkersStop(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var mu sync.Mutex
	executed := map[schemas.CallKey]int{}
	tool := tools.Tool{ToolDefinition: schemas.ToolDefinition{Name: "once"},
		Execute: func(_ context.Context, call tools.Call) (schemas.ToolResult, error) {
			mu.Lock()
			defer mu.Unlock()
			executed[call.Key]++
			return schemas.TextResult("done"), nil
		}}
	const rounds, each = 6, 20
	for range rounds {
		stop := r.serve(func(ctx context.Context) error { return worker.Serve(ctx, r.client, tool) })
		for range each {
			r.call("once", `{}`)
		}
		r.wantResult("done", false)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	}
	r.serve(func(ctx context.Context) error { return worker.Serve(ctx, r.client, tool) })
	for range rounds*each - rounds {
		r.wantResult("done", false)
	}
	r.empty()
	if len(executed) != rounds*each {
		t.Errorf("%d calls were executed", len(executed))
	}
	for key, n := range executed {
		if n != 1 {
			t.Errorf("call %s was executed %d times", key, n)
		}
	}
}

// A call that cannot be answered is moved to AGENT_DEAD at its tenth delivery.
func TestUnanswerableCallBecomesDeadLetter(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const subject = "agent.tool.count.not%legal.c3"
	msg := &nats.Msg{Subject: subject, Data: []byte(`{}`), Header: nats.Header{"Nats-Msg-Id": {"m1"}, "Trace": {"t1"}}}
	if _, err := r.js.PublishMsg(t.Context(), msg); err != nil {
		t.Fatal(err)
	}
	c, err := r.js.CreateConsumer(t.Context(), schemas.StreamTools, worker.Consumer(schemas.Subjects{}, "count", 0))
	if err != nil {
		t.Fatal(err)
	}
	for range 9 {
		call, err := c.Next(jetstream.FetchMaxWait(deadline))
		if err != nil {
			t.Fatal(err)
		}
		if err := call.Nak(); err != nil {
			t.Fatal(err)
		}
	}
	letters := r.subscribe("agent.dead.>")
	r.serve(func(ctx context.Context) error { return worker.Serve(ctx, r.client, r.count()) })
	letter := bustest.Within(t, letters)
	for name, want := range map[string]string{
		"Loopbus-Dead-Stream": "AGENT_TOOL", "Loopbus-Dead-Subject": subject, "Loopbus-Dead-Deliveries": "10",
		"Loopbus-Dead-Msg-Id": "m1", "Trace": "t1",
	} {
		if got := letter.Header.Get(name); got != want {
			t.Errorf("header %s is %q, want %q", name, got, want)
		}
	}
	if letter.Subject != "agent.dead.AGENT_TOOL._" ||
		!strings.Contains(letter.Header.Get("Loopbus-Dead-Reason"), "not%legal") {
		t.Errorf("letter at %s: %v", letter.Subject, letter.Header)
	}
	r.empty()
}

// count returns a tool that answers with the number of calls so far.
func (r *rig) count() tools.Tool {
	n := 0
	return tools.Tool{ToolDefinition: schemas.ToolDefinition{Name: "count",
		Parameters: json.RawMessage(`{"type":"object"}`)},
		Execute: func(context.Context, tools.Call) (schemas.ToolResult, error) {
			n++
			return schemas.TextResult(fmt.Sprint(n)), nil
		}}
}
