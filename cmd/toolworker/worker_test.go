package main

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/worker"
)

func TestCallIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var seen tools.Call
	metrics := prometheus.NewRegistry()
	r.serve(1, worker.Options{Registerer: metrics, Tools: []tools.Tool{newTool("echo", "",
		func(_ context.Context, call tools.Call) (schemas.ToolResult, error) {
			seen = call
			call.Update(schemas.TextResult("half"))
			return schemas.ToolResult{Content: schemas.Contents{schemas.Text{Text: "done"}},
				Details: json.RawMessage(`{"n": 1}`), Terminate: true}, nil
		})}})
	req := r.request("echo", `{"a":1}`)
	req.TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	r.dispatch(req)

	got, msg := r.answer()
	got.DurationMs = 0
	want := schemas.ToolResponse{Call: "c2", ToolCallID: "toolu_2", ToolName: "echo", Worker: "w1", Nonce: schemas.NoNonce,
		Result: schemas.ToolResult{
			Content: schemas.Contents{schemas.Text{Text: "done"}}, Details: json.RawMessage(`{"n":1}`), Terminate: true}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	wantCall := tools.Call{Session: "s1", RunID: "r1", TurnID: "t1", Key: "c2", ID: "toolu_2",
		Arguments: json.RawMessage(`{"a":1}`), IdempotencyKey: "s1/c2"}
	if d := cmp.Diff(wantCall, seen, cmpopts.IgnoreUnexported(tools.Call{})); d != "" {
		t.Errorf("the tool's call (-want +got):\n%s", d)
	}
	if !strings.HasPrefix(msg.Header.Get("Nats-Msg-Id"), "s1/c2/result/") ||
		msg.Header.Get(schemas.HeaderTraceParent) != req.TraceParent {
		t.Errorf("header %v", msg.Header)
	}
	update := bustest.Within(t, r.updates)
	u, err := schemas.DecodeUpdate(update.Header, update.Data)
	if err != nil {
		t.Fatal(err)
	}
	partial := u.Data.(*schemas.ToolExecutionUpdate)
	if u.ID() != "s1/2.1" || u.RunID != "r1" || partial.Call != "c2" ||
		partial.PartialResult.Content.JoinText() != "half" {
		t.Errorf("update %s: %+v", u.ID(), partial)
	}
	r.settled()
	if families, err := metrics.Gather(); err != nil || len(families) == 0 {
		t.Errorf("%d metrics, %v", len(families), err)
	}
}

func TestAnnouncementsLiveAsLongAsTheWorker(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	tool := newTool("echo", schemas.EffectIdempotent, echo)
	tool.Description, tool.Parameters = "says it again", json.RawMessage(`{"type":"object"}`)
	w := r.serve(1, worker.Options{AnnounceTTL: time.Second, Tools: []tools.Tool{tool}})
	entry := r.announcement("echo", "w1")
	var got schemas.ToolAnnouncement
	if err := json.Unmarshal(entry.Value(), &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(tool.ToolDefinition, got.ToolDefinition); d != "" || got.Worker != "w1" || got.Since == "" {
		t.Errorf("%+v (-want +got):\n%s", got, d)
	}
	stream, err := r.conn.JetStream().Stream(r.ctx(), "KV_"+schemas.BucketTools)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := stream.GetLastMsgForSubject(r.ctx(), "$KV."+schemas.BucketTools+".echo.w1")
	if err != nil || raw.Header.Get("Nats-TTL") != "1s" {
		t.Errorf("header %v, %v", raw.Header, err)
	}
	bustest.Eventually(t, "it is renewed past its time to live", func() bool {
		now := r.announcement("echo", "w1")
		return now != nil && now.Created().Sub(entry.Created()) > time.Second
	})
	if err := w.stop(); err != nil {
		t.Error(err)
	}
	if entry := r.announcement("echo", "w1"); entry != nil {
		t.Errorf("still announced: %s", entry.Value())
	}
}

// gate is a tool whose calls wait until they are let go.
type gate struct {
	begun chan string
	pass  chan struct{}
	now   atomic.Int32
	most  atomic.Int32
}

func newGate() *gate { return &gate{begun: make(chan string, 64), pass: make(chan struct{})} }

func (g *gate) execute(ctx context.Context, call tools.Call) (schemas.ToolResult, error) {
	n := g.now.Add(1)
	defer g.now.Add(-1)
	for most := g.most.Load(); n > most && !g.most.CompareAndSwap(most, n); most = g.most.Load() {
	}
	g.begun <- string(call.Key)
	select {
	case <-g.pass:
		return schemas.TextResult("passed"), nil
	case <-ctx.Done():
		return schemas.ToolResult{}, tools.Interrupted(ctx)
	}
}

func TestConcurrency(t *testing.T) {
	t.Parallel()
	r, g := newRig(t), newGate()
	r.serve(3, worker.Options{Tools: []tools.Tool{newTool("gate", "", g.execute)}})
	for range 9 {
		r.call("gate", `{}`)
	}
	for range 3 {
		bustest.Within(t, g.begun)
	}
	for range 9 {
		g.pass <- struct{}{}
		r.wantText("passed", false)
	}
	r.settled()
	if most := g.most.Load(); most != 3 {
		t.Errorf("%d calls at once, want 3", most)
	}
}

func TestOptionsOfAWorkerAreChecked(t *testing.T) {
	t.Parallel()
	_, err := worker.New(worker.Options{ID: "a.b", AnnounceTTL: time.Millisecond, Tools: []tools.Tool{
		{ToolDefinition: schemas.ToolDefinition{Name: "x y"}}, newTool("echo", "", echo), newTool("echo", "", echo),
	}})
	for _, want := range []string{`worker id "a.b"`, "no connection", `"x y"`, "cannot be executed", `"echo" given twice`,
		"whole seconds"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
}
