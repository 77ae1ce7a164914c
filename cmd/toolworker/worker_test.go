package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/bash"
	"github.com/loopbus/loopbus/tools/worker"
	"github.com/loopbus/loopbus/tools/workspace"
)

func TestCallIsAnsweredOnce(t *testing.T) {
	r := newRig(t)
	var seen tools.Call
	metrics := prometheus.NewRegistry()
	r.serve(1, worker.Options{Registerer: metrics, Tools: []tools.Tool{newTool("echo", "",
		func(_ context.Context, call tools.Call, update func(schemas.ToolResult)) (schemas.ToolResult, error) {
			seen = call
			update(schemas.TextResult("half"))
			return schemas.ToolResult{Content: schemas.Contents{schemas.Text{Text: "done"}}, Details: json.RawMessage(`{"n": 1}`), Terminate: true}, nil
		})}})
	req := r.request("echo", `{"a":1}`)
	req.TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	r.dispatch(req)

	got, msg := r.answer()
	got.DurationMs = 0
	want := schemas.ToolResponse{Call: "c2", ToolCallID: "toolu_2", ToolName: "echo", Worker: "w1", Result: schemas.ToolResult{
		Content: schemas.Contents{schemas.Text{Text: "done"}}, Details: json.RawMessage(`{"n":1}`), Terminate: true}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	wantCall := tools.Call{Session: "s1", RunID: "r1", TurnID: "t1", Key: "c2", ID: "toolu_2",
		Arguments: json.RawMessage(`{"a":1}`), IdempotencyKey: "s1/c2"}
	if d := cmp.Diff(wantCall, seen); d != "" {
		t.Errorf("the tool's call (-want +got):\n%s", d)
	}
	if msg.Header.Get("Nats-Msg-Id") != "s1/c2/result" || msg.Header.Get(schemas.HeaderTraceParent) != req.TraceParent {
		t.Errorf("header %v", msg.Header)
	}
	update := within(t, r.updates)
	u, err := schemas.DecodeUpdate(update.Header, update.Data)
	if err != nil {
		t.Fatal(err)
	}
	partial := u.Data.(*schemas.ToolExecutionUpdate)
	if u.ID() != "s1/2.1" || u.RunID != "r1" || partial.Call != "c2" || partial.PartialResult.Content.JoinText() != "half" {
		t.Errorf("update %s: %+v", u.ID(), partial)
	}
	r.settled()
	if families, err := metrics.Gather(); err != nil || len(families) == 0 {
		t.Errorf("%d metrics, %v", len(families), err)
	}
}

func TestAnnouncementsLiveAsLongAsTheWorker(t *testing.T) {
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
	r.eventually("it is renewed past its time to live", func() bool {
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

// Whoever holds the pipe open is alive: when its end comes, the shell, its child and the child's child are gone.
func TestCancelKillsTheProcessGroup(t *testing.T) {
	r := newRig(t)
	root := t.TempDir()
	ws, err := workspace.Open(workspace.Options{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.Close() })
	fifo := filepath.Join(root, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	r.serve(1, worker.Options{Tools: []tools.Tool{bash.New(bash.Options{Workspace: ws, Environ: os.Environ(), TempDir: t.TempDir()})}})
	req := r.call("bash", `{"command":"exec 3>fifo; (bash -c 'bash -c \"echo ready >&3; sleep 300\" & wait' & wait)"}`)
	pipe, err := os.Open(fifo)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pipe.Close() }()
	ready := make([]byte, 6)
	if _, err := io.ReadFull(pipe, ready); err != nil {
		t.Fatal(err)
	}
	if err := bus.NewDispatcher(r.conn).Cancel(r.ctx(), req.Session, req.Call); err != nil {
		t.Fatal(err)
	}
	r.wantText("Command aborted", true)
	ended := make(chan error, 1)
	go func() { _, err := pipe.Read(ready); ended <- err }()
	if err := within(t, ended); err != io.EOF {
		t.Errorf("somebody still holds the pipe: %v", err)
	}
	r.settled()
}

// gate is a tool whose calls wait until they are let go.
type gate struct {
	begun chan string
	pass  chan struct{}
	now   atomic.Int32
	most  atomic.Int32
}

func newGate() *gate { return &gate{begun: make(chan string, 64), pass: make(chan struct{})} }

func (g *gate) execute(ctx context.Context, call tools.Call, _ func(schemas.ToolResult)) (schemas.ToolResult, error) {
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

func TestCancelBeforeTheCallBegins(t *testing.T) {
	r, g := newRig(t), newGate()
	r.serve(1, worker.Options{Tools: []tools.Tool{newTool("gate", "", g.execute)}})
	r.call("gate", `{}`)
	within(t, g.begun)
	second := r.call("gate", `{}`)
	if err := bus.NewDispatcher(r.conn).Cancel(r.ctx(), second.Session, second.Call); err != nil {
		t.Fatal(err)
	}
	if err := r.conn.NATS().Flush(); err != nil {
		t.Fatal(err)
	}
	g.pass <- struct{}{}
	r.wantText("passed", false)
	r.wantText("Operation aborted", true)
	if len(g.begun) != 0 {
		t.Error("the cancelled call was executed")
	}
}

func TestConcurrency(t *testing.T) {
	r, g := newRig(t), newGate()
	r.serve(3, worker.Options{Tools: []tools.Tool{newTool("gate", "", g.execute)}})
	for range 9 {
		r.call("gate", `{}`)
	}
	for range 3 {
		within(t, g.begun)
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

// lose takes the next call of a tool as a worker would that dies with it.
func (r *rig) lose(tool string) {
	r.t.Helper()
	js := r.conn.JetStream()
	consumer, err := js.CreateOrUpdateConsumer(r.ctx(), schemas.StreamTools, worker.Consumer(r.conn.Subjects(), tool, 300*time.Millisecond))
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := consumer.Next(jetstream.FetchContext(r.ctx())); err != nil {
		r.t.Fatal(err)
	}
}

func TestLostCalls(t *testing.T) {
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
			r := newRig(t)
			req := r.request("echo", `{}`)
			req.Effect = c.asks
			r.dispatch(req)
			r.lose("echo")
			var runs atomic.Int32
			r.serve(1, worker.Options{Tools: []tools.Tool{newTool("echo", c.tool,
				func(context.Context, tools.Call, func(schemas.ToolResult)) (schemas.ToolResult, error) {
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

// A call that takes longer than its acknowledgement may wait is not given to another worker.
func TestLongCallsAreKept(t *testing.T) {
	r, g := newRig(t), newGate()
	tool := newTool("gate", schemas.EffectReadOnly, g.execute)
	r.serve(1, worker.Options{ID: "w1", Tools: []tools.Tool{tool}})
	r.serve(1, worker.Options{ID: "w2", Tools: []tools.Tool{tool}})
	r.call("gate", `{}`)
	within(t, g.begun)
	select {
	case <-g.begun:
		t.Error("the call was executed twice")
	case <-time.After(time.Second): // three times the wait
	}
	g.pass <- struct{}{}
	r.wantText("passed", false)
	r.settled()
}

func TestDrainLetsCallsFinish(t *testing.T) {
	r, g := newRig(t), newGate()
	tool := newTool("gate", "", g.execute)
	w := r.serve(1, worker.Options{ID: "w1", Tools: []tools.Tool{tool}})
	r.call("gate", `{}`)
	within(t, g.begun)
	stopped := make(chan error, 1)
	go func() { stopped <- w.stop() }()
	r.eventually("announcements are withdrawn while the call goes on", func() bool { return r.announcement("gate", "w1") == nil })
	second := r.call("gate", `{}`)
	select {
	case err := <-stopped:
		t.Fatalf("stopped with a call at work: %v", err)
	case key := <-g.begun:
		t.Fatalf("took call %s while stopping", key)
	case <-time.After(100 * time.Millisecond):
	}
	g.pass <- struct{}{}
	r.wantText("passed", false)
	if err := within(t, stopped); err != nil {
		t.Error(err)
	}
	r.serve(1, worker.Options{ID: "w2", Tools: []tools.Tool{tool}}) // gets what was left
	if key := within(t, g.begun); key != string(second.Call) {
		t.Errorf("call %s", key)
	}
	g.pass <- struct{}{}
	r.wantText("passed", false)
	r.settled()
}

func TestDrainCutsLongCallsOff(t *testing.T) {
	r, g := newRig(t), newGate()
	w := r.serve(1, worker.Options{StopTimeout: 50 * time.Millisecond, Tools: []tools.Tool{newTool("gate", "", g.execute)}})
	r.call("gate", `{}`)
	within(t, g.begun)
	if err := w.stop(); err != nil {
		t.Error(err)
	}
	r.wantText("Operation aborted", true)
	r.settled()
}

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
	r.serve(1, worker.Options{Tools: []tools.Tool{newTool("echo", "", echo)}, Middleware: []message.HandlerMiddleware{
		bus.DeadLetter(r.conn, bus.DeadLetterOptions{MaxDeliveries: 1, SessionOf: func(string) string { return "s1" }}),
	}})
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
	dead := make(chan string, 1)
	sub, err := r.conn.NATS().Subscribe("agent.dead.>", func(m *nats.Msg) { dead <- m.Subject })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	if _, err := r.conn.JetStream().Publish(r.ctx(), "agent.tool.echo.s1.no=token", []byte("{}")); err != nil {
		t.Fatal(err)
	}
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

func TestResultsThatDoNotFit(t *testing.T) {
	r := newRig(t)
	long := strings.Repeat("é", 400_000)
	r.serve(1, worker.Options{Tools: []tools.Tool{newTool("big", "",
		func(_ context.Context, call tools.Call, update func(schemas.ToolResult)) (schemas.ToolResult, error) {
			update(schemas.TextResult(strings.Repeat("x", 1<<20))) // dropped, and no harm done
			var args struct{ Kind string }
			_ = json.Unmarshal(call.Arguments, &args)
			result := schemas.TextResult("short")
			switch args.Kind {
			case "image":
				result.Content = append(result.Content, schemas.Image{Data: strings.Repeat("A", 600<<10), MimeType: "image/png"})
			case "details":
				result.Details = json.RawMessage(`"` + strings.Repeat("d", 600<<10) + `"`)
			case "text":
				result = schemas.TextResult(long)
			case "escapes":
				result = schemas.TextResult(strings.Repeat("\x00", 200<<10))
			case "blocks":
				for range 20_000 {
					result.Content = append(result.Content, schemas.Text{Text: "block"})
				}
			}
			return result, nil
		})}})
	for kind, want := range map[string]string{
		"image":   "short\n[Image omitted: its 614400 bytes do not fit in a message of the bus.]",
		"details": "short",
		"blocks":  "[The result was left out: it does not fit in a message of the bus.]",
	} {
		r.call("big", `{"Kind":"`+kind+`"}`)
		r.wantText(want, false)
	}
	for _, kind := range []string{"text", "escapes"} {
		r.call("big", `{"Kind":"`+kind+`"}`)
		got, msg := r.answer()
		text := got.Result.Content.JoinText()
		if got.IsError || len(msg.Data) > 512<<10 || len(msg.Data) < 64<<10 || !strings.Contains(text, " bytes left out: the result does not fit") {
			t.Errorf("%s: %v, %d bytes", kind, got.IsError, len(msg.Data))
		}
		if kind == "text" && (text[:2] != "é" || text[len(text)-2:] != "é") {
			t.Errorf("neither end is kept: %.20q", text)
		}
	}
	r.settled()
}

// A result waits for the inbox, and the call is not acknowledged before it is stored.
func TestResultIsStoredBeforeTheCallIsSettled(t *testing.T) {
	r := newRig(t)
	for _, tap := range r.taps { // with nobody there, a publish fails at once
		if err := tap.Unsubscribe(); err != nil {
			t.Fatal(err)
		}
	}
	ran, log := make(chan struct{}, 8), make(lines, 64)
	r.serve(1, worker.Options{Logger: slog.New(slog.NewTextHandler(log, nil)), Tools: []tools.Tool{newTool("echo", "",
		func(_ context.Context, _ tools.Call, _ func(schemas.ToolResult)) (schemas.ToolResult, error) {
			ran <- struct{}{}
			return schemas.TextResult("ok"), nil
		})}})
	if err := r.conn.JetStream().DeleteStream(r.ctx(), schemas.StreamCommands); err != nil {
		t.Fatal(err)
	}
	r.call("echo", `{}`)
	within(t, ran)
	for tried := 0; tried < 2; {
		if strings.Contains(within(t, log), "result not stored, trying again") {
			tried++
		}
	}
	if r.waiting() != 1 {
		t.Error("the call was acknowledged before its result was stored")
	}
	if err := bus.Setup(r.ctx(), r.conn, bus.StreamOptions{}); err != nil {
		t.Fatal(err)
	}
	r.settled()
	stream, err := r.conn.JetStream().Stream(r.ctx(), schemas.StreamCommands)
	if err != nil || stream.CachedInfo().State.Msgs != 1 {
		t.Errorf("%d results stored, %v", stream.CachedInfo().State.Msgs, err)
	}
	if len(ran) != 0 {
		t.Error("the tool ran again")
	}
}

// lines is a log that can be waited for.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	select {
	case l <- string(p):
	default:
	}
	return len(p), nil
}

func TestUpdatesAreJoined(t *testing.T) {
	r := newRig(t)
	r.serve(1, worker.Options{UpdateEvery: time.Hour, Tools: []tools.Tool{newTool("chatty", "",
		func(_ context.Context, _ tools.Call, update func(schemas.ToolResult)) (schemas.ToolResult, error) {
			for _, text := range []string{"first", "second", "third", "last"} {
				update(schemas.TextResult(text))
			}
			return schemas.TextResult("done"), nil
		})}})
	r.call("chatty", `{}`)
	r.wantText("done", false)
	for n, want := range []string{"first", "last"} {
		msg := within(t, r.updates)
		u, err := schemas.DecodeUpdate(msg.Header, msg.Data)
		if err != nil {
			t.Fatal(err)
		}
		if got := u.Data.(*schemas.ToolExecutionUpdate).PartialResult.Content.JoinText(); got != want || u.N != uint64(n+1) {
			t.Errorf("update %d is %q, want %q", u.N, got, want)
		}
	}
	if len(r.updates) != 0 {
		t.Errorf("%d more updates", len(r.updates))
	}
}

func TestOptionsOfAWorkerAreChecked(t *testing.T) {
	_, err := worker.New(worker.Options{ID: "a.b", AnnounceTTL: time.Millisecond, Tools: []tools.Tool{
		{ToolDefinition: schemas.ToolDefinition{Name: "x y"}}, newTool("echo", "", echo), newTool("echo", "", echo),
	}})
	for _, want := range []string{`worker id "a.b"`, "no connection", "no subscriber", `"x y"`, "cannot be executed", `"echo" given twice`, "whole seconds"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
}
