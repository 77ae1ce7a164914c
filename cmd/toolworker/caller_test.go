package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/dispatch"
	"github.com/loopbus/loopbus/bus/registry"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/worker"
)

func (r *rig) caller(id string) *dispatch.Caller {
	r.t.Helper()
	caller, err := dispatch.NewCaller(r.connect(), dispatch.CallerOptions{ID: id, LookEvery: 50 * time.Millisecond})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(caller.Close)
	return caller
}

// stored counts what is in a stream.
func (r *rig) stored(stream string) uint64 {
	r.t.Helper()
	s, err := r.conn.JetStream().Stream(r.ctx(), stream)
	if err != nil {
		r.t.Fatal(err)
	}
	return s.CachedInfo().State.Msgs
}

// A caller that is no session has its answer, and the partial results, and nothing of it comes into any inbox.
func TestCallerIsAnswered(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	seen, release := make(chan tools.Call, 1), make(chan struct{})
	tool := newTool("echo", "", func(_ context.Context, call tools.Call) (schemas.ToolResult, error) {
		seen <- call
		call.Update(schemas.TextResult("half"))
		<-release
		return schemas.TextResult(string(call.Arguments)), nil
	})
	r.serve(1, worker.Options{Tools: []tools.Tool{tool}})
	var halves []string
	got, err := r.caller("m1").Call(soon(t), "mcp-x", tool.ToolDefinition, json.RawMessage(`{"a":1}`),
		func(u schemas.ToolResult) {
			halves = append(halves, u.Content.JoinText())
			close(release)
		})
	if err != nil {
		t.Fatal(err)
	}
	if got.Result.Content.JoinText() != `{"a":1}` || got.IsError || got.Worker != "w1" {
		t.Errorf("%+v", got)
	}
	if call := bustest.Within(t, seen); call.Session != "mcp-x" || !strings.HasPrefix(call.IdempotencyKey, "mcp-x/c1/") {
		t.Errorf("%+v", call)
	}
	if d := cmp.Diff([]string{"half"}, halves); d != "" {
		t.Errorf("updates (-want +got):\n%s", d)
	}
	r.settled()
	if n := r.stored(schemas.StreamCommands); n != 0 {
		t.Errorf("%d messages in inboxes", n)
	}
}

// What a caller gives up is withdrawn while it waits, and cancelled at its worker's.
func TestCallerGivesUp(t *testing.T) {
	t.Parallel()
	r, g := newRig(t), newGate()
	tool := newTool("gate", "", g.execute)
	r.serve(1, worker.Options{Tools: []tools.Tool{tool}})
	caller := r.caller("m1")
	stop := errors.New("no more")
	call := func() (context.CancelCauseFunc, <-chan error) {
		ctx, cancel := context.WithCancelCause(context.Background())
		ended := make(chan error, 1)
		go func() {
			_, err := caller.Call(ctx, "mcp-x", tool.ToolDefinition, json.RawMessage(`{}`), nil)
			ended <- err
		}()
		return cancel, ended
	}
	stopWorking, working := call()
	bustest.Within(t, g.begun)
	stopWaiting, waiting := call()
	bustest.Eventually(t, "two calls are in the queue", func() bool { return r.waiting() == 2 })
	stopWaiting(stop)
	if err := bustest.Within(t, waiting); !errors.Is(err, stop) {
		t.Errorf("the call that waits: %v", err)
	}
	stopWorking(stop)
	if err := bustest.Within(t, working); !errors.Is(err, stop) {
		t.Errorf("the call at work: %v", err)
	}
	r.settled()
	if len(g.begun) != 0 {
		t.Error("the call that was withdrawn has begun")
	}
}

// Nobody executes what nobody waits for any more.
func TestCallOfACallerThatIsGoneIsDropped(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	req := r.request("echo", `{}`)
	req.ReplyTo = r.conn.Subjects().Reply("gone", string(req.Call))
	r.dispatch(req)
	begun := make(chan string, 2)
	r.serve(1, worker.Options{Tools: []tools.Tool{newTool("echo", "",
		func(_ context.Context, call tools.Call) (schemas.ToolResult, error) {
			begun <- string(call.Key)
			return schemas.TextResult("ran"), nil
		})}})
	r.settled()
	r.call("echo", `{}`)
	r.wantText("ran", false)
	if key := bustest.Within(t, begun); key == string(req.Call) {
		t.Error("the call was executed")
	}
}

// A request may not send a worker's answer anywhere but to callers: not into a session's inbox, and not to all who
// listen.
func TestReplyToElsewhereIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	prompts := make(chan *nats.Msg, 8)
	sub, err := r.conn.NATS().ChanSubscribe("agent.cmd.*.prompt", prompts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	r.serve(1, worker.Options{Tools: []tools.Tool{newTool("echo", "", echo)}})
	for _, subject := range []string{"agent.cmd.s2.prompt", "agent.evt.s2", "agent.reply"} {
		req := r.request("echo", `{}`)
		req.ReplyTo = subject
		r.dispatch(req)
		if got, _ := r.answer(); !got.IsError || !strings.Contains(got.Result.Content.JoinText(),
			"replyTo: illegal subject") || got.Call != req.Call {
			t.Errorf("%s: %+v", subject, got)
		}
	}
	r.settled()
	if len(prompts) != 0 {
		t.Error("a worker has sent a prompt")
	}
}

// An inbox of a plain NATS client will do.
func TestReplyToAnInbox(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.serve(1, worker.Options{Tools: []tools.Tool{newTool("echo", "", echo)}})
	answers := make(chan *nats.Msg, 8)
	inbox := nats.NewInbox()
	sub, err := r.conn.NATS().ChanSubscribe(inbox, answers)
	if err == nil {
		err = r.conn.NATS().Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	req := r.request("echo", `{"x":1}`)
	req.ReplyTo = inbox
	r.dispatch(req)
	var got schemas.ToolAnswer
	err = json.Unmarshal(bustest.Within(t, answers).Data, &got)
	if err != nil || got.Result.Content.JoinText() != `{"x":1}` {
		t.Errorf("%v, %+v", err, got)
	}
	r.settled()
	if len(answers) != 0 {
		t.Error("answered twice")
	}
}

// An answer that was lost on the way is not waited for for ever.
func TestCallerWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ended := make(chan error, 1)
	caller := r.caller("m1")
	go func() {
		_, err := caller.Call(soon(t), "mcp-x", schemas.ToolDefinition{Name: "echo"}, json.RawMessage(`{}`), nil)
		ended <- err
	}()
	bustest.Eventually(t, "the call waits", func() bool { return r.waiting() == 1 })
	stream, err := r.conn.JetStream().Stream(r.ctx(), schemas.StreamTools)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(r.ctx()); err != nil {
		t.Fatal(err)
	}
	err = bustest.Within(t, ended)
	if err == nil || !strings.Contains(err.Error(), "the outcome of this call is unknown") {
		t.Errorf("%v", err)
	}
}

func TestCallerOfAToolThatNobodyServes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := r.serve(1, worker.Options{Tools: []tools.Tool{newTool("echo", "", echo)}})
	if err := w.stop(); err != nil {
		t.Fatal(err)
	}
	conn := r.connect()
	toolbox := registry.NewToolbox(conn, nil)
	defer toolbox.Close()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		o := dispatch.UnservedOptions{ID: "u1", After: 100 * time.Millisecond, Toolbox: toolbox}
		dispatch.NewUnserved(conn, o).Run(ctx)
	}()
	defer func() { cancel(); <-done }()
	got, err := r.caller("m1").Call(soon(t), "mcp-x", schemas.ToolDefinition{Name: "echo"}, json.RawMessage(`{}`), nil)
	if err != nil || !got.IsError || got.Result.Content.JoinText() != "no worker serves tool echo" {
		t.Errorf("%+v, %v", got, err)
	}
}

// A caller answers liveness checks of workers in their inboxes while its call waits, and sends nothing anywhere else.
func TestCallerTellsWorkersOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	nc := r.conn.NATS()
	told := make(chan *nats.Msg, 8)
	sub, err := nc.ChanSubscribe("agent.cmd.>", told)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	begun := make(chan string, 2)
	r.serve(1, worker.Options{Tools: []tools.Tool{newTool("echo", "",
		func(ctx context.Context, call tools.Call) (schemas.ToolResult, error) {
			begun <- string(call.Key)
			<-ctx.Done()
			return schemas.TextResult("ended"), nil
		})}})
	requests := make(chan *nats.Msg, 8)
	if sub, err = nc.ChanSubscribe("agent.tool.>", requests); err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	ctx, end := context.WithCancel(soon(t))
	ended := make(chan error, 1)
	go func() {
		_, err := r.caller("m1").Call(ctx, "mcp-x", schemas.ToolDefinition{Name: "echo"}, json.RawMessage(`{}`), nil)
		ended <- err
	}()
	req, err := schemas.ParseToolRequest(bustest.Within(t, requests).Data)
	if bustest.Within(t, begun); err == nil {
		err = nc.PublishRequest(req.ReplyTo, "agent.cmd.s1.abort", nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := nc.RequestWithContext(soon(t), req.ReplyTo, nil); err != nil { // comes after it
		t.Errorf("a worker that asks: %v", err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if len(told) != 0 {
		t.Errorf("sent to %s", (<-told).Subject)
	}
	end()
	if err := bustest.Within(t, ended); !errors.Is(err, context.Canceled) {
		t.Errorf("the call: %v", err)
	}
	bustest.Eventually(t, "nobody listens any more", func() bool {
		_, err := nc.Request(req.ReplyTo, nil, time.Second)
		return errors.Is(err, nats.ErrNoResponders)
	})
}
