package driver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/schemas"
)

// modelFunc is a model that answers by a function of the request.
type modelFunc func(ctx context.Context, req schemas.ModelRequest) (*schemas.AssistantMessage, error)

func (f modelFunc) Stream(ctx context.Context, req schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	return func(yield func(schemas.StreamEvent, error) bool) {
		if !yield(schemas.StreamEvent{Type: schemas.StreamStart}, nil) {
			return
		}
		reply, err := f(ctx, req)
		if err != nil {
			yield(schemas.StreamEvent{}, err)
			return
		}
		yield(schemas.StreamEvent{Type: schemas.StreamDone, Message: reply}, nil)
	}
}

func say(text string) *schemas.AssistantMessage {
	return &schemas.AssistantMessage{Content: schemas.Contents{schemas.Text{Text: text}}, StopReason: schemas.StopStop}
}

func callTool(ids ...string) *schemas.AssistantMessage {
	m := &schemas.AssistantMessage{StopReason: schemas.StopToolUse}
	for _, id := range ids {
		m.Content = append(m.Content, schemas.ToolCall{ID: id, Name: "echo", Arguments: json.RawMessage(`{"v":"` + id + `"}`)})
	}
	return m
}

// toolThenDone calls echo for each id first and then says done.
func toolThenDone(ids ...string) modelFunc {
	return func(_ context.Context, req schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		for _, m := range req.Messages {
			if m.MessageRole() == schemas.RoleToolResult {
				return say("done"), nil
			}
		}
		return callTool(ids...), nil
	}
}

// queue is the tool side of a bus: it keeps what was dispatched.
type queue struct {
	mu        sync.Mutex
	requests  []schemas.ToolRequest
	again     []bool
	cancelled []schemas.CallKey
	came      chan struct{}
}

func newQueue() *queue { return &queue{came: make(chan struct{}, 100)} }

func (q *queue) Dispatch(_ context.Context, req schemas.ToolRequest, again bool) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.requests, q.again = append(q.requests, req), append(q.again, again)
	q.came <- struct{}{}
	return nil
}

func (q *queue) Cancel(_ context.Context, _ string, call schemas.CallKey) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.cancelled = append(q.cancelled, call)
	q.came <- struct{}{}
	return nil
}

func (q *queue) take(t *testing.T) schemas.ToolRequest {
	t.Helper()
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.requests) == 0 {
		t.Fatal("no tool call was dispatched")
	}
	req := q.requests[0]
	q.requests = q.requests[1:]
	return req
}

type echoBox struct{}

func (echoBox) Definitions(context.Context) ([]schemas.ToolDefinition, error) {
	return []schemas.ToolDefinition{{Name: "echo"}}, nil
}

type rig struct {
	t     *testing.T
	store *eventstore.Memory
	tools *queue
	host  *driver.Host
}

func newRig(t *testing.T, model driver.Model, change ...func(*driver.HostOptions)) *rig {
	r := &rig{t: t, store: eventstore.NewMemory(), tools: newQueue()}
	r.host = r.newHost(model, change...)
	return r
}

func (r *rig) newHost(model driver.Model, change ...func(*driver.HostOptions)) *driver.Host {
	o := driver.HostOptions{
		Open: func(ctx context.Context, session string) (driver.SessionLog, error) {
			return r.store.Open(ctx, session)
		},
		Model: model, Tools: r.tools, Toolbox: echoBox{}, Source: "/loopbus/runner/test",
		Defaults: schemas.RunConfig{Model: schemas.ModelRef{ID: "m"}},
	}
	for _, f := range change {
		f(&o)
	}
	return driver.NewHost(o)
}

func (r *rig) deliver(id string, data schemas.CommandData) {
	r.t.Helper()
	if err := r.host.Deliver(r.t.Context(), command(id, data), nil); err != nil {
		r.t.Fatalf("deliver %s: %v", id, err)
	}
}

func command(id string, data schemas.CommandData) schemas.Command {
	return schemas.Command{ID: id, Session: "s1", Data: data}
}

func prompt(text string) *schemas.Prompt { return &schemas.Prompt{Input: schemas.Input{Text: text}} }

func answerTo(req schemas.ToolRequest, text string) (string, *schemas.ToolResponse) {
	return "result-" + string(req.Call), &schemas.ToolResponse{
		Call: req.Call, ToolCallID: req.ToolCallID, ToolName: req.ToolName, Result: schemas.TextResult(text),
	}
}

func (r *rig) events() []schemas.Event {
	r.t.Helper()
	log, err := r.store.Open(r.t.Context(), "s1")
	if err != nil {
		r.t.Fatal(err)
	}
	var events []schemas.Event
	for e, err := range log.Read(r.t.Context(), 1) {
		if err != nil {
			r.t.Fatal(err)
		}
		events = append(events, e)
	}
	return events
}

func (r *rig) types() []string {
	var types []string
	for _, e := range r.events() {
		types = append(types, string(e.Type()))
	}
	return types
}

func (r *rig) count(kind schemas.EventType) (n int) {
	for _, e := range r.events() {
		if e.Type() == kind {
			n++
		}
	}
	return n
}

func TestHostDrivesARun(t *testing.T) {
	r := newRig(t, toolThenDone("t1"))
	r.deliver("p1", prompt("go"))
	if n := r.count(schemas.EventAgentEnd); n != 0 {
		t.Fatal("the run ended before its tool answered")
	}
	id, result := answerTo(r.tools.take(t), "ok")
	r.deliver(id, result)
	want := []string{
		"command_accepted", "agent_start", "turn_start", "message_start", "message_end", "command_applied",
		"message_start", "message_end", "tool_execution_start",
		"tool_execution_end", "message_start", "message_end", "turn_end",
		"turn_start", "message_start", "message_end", "turn_end", "agent_end",
	}
	if d := cmp.Diff(want, r.types()); d != "" {
		t.Errorf("log (-want +got):\n%s", d)
	}
	for _, e := range r.events()[1:] {
		if e.CorrelationID != "p1" || e.RunID != "r2" {
			t.Errorf("%s: correlation %q, run %q", e.ID(), e.CorrelationID, e.RunID)
		}
	}
}

func TestEveryMessageTwiceChangesNothing(t *testing.T) {
	r := newRig(t, toolThenDone("t1"))
	r.deliver("p1", prompt("go"))
	r.deliver("p1", prompt("go"))
	req := r.tools.take(t)
	id, result := answerTo(req, "ok")
	r.deliver(id, result)
	before := r.types()
	r.deliver(id, result)
	r.deliver("p1", prompt("go"))
	if d := cmp.Diff(before, r.types()); d != "" {
		t.Errorf("a second delivery changed the log (-before +after):\n%s", d)
	}
	if len(r.tools.requests) != 0 {
		t.Errorf("dispatched again: %v", r.tools.requests)
	}
}

func TestAnotherHostGoesOn(t *testing.T) {
	r := newRig(t, toolThenDone("t1", "t2"))
	r.deliver("p1", prompt("go"))
	first, second := r.tools.take(t), r.tools.take(t)
	id, result := answerTo(second, "two")
	r.deliver(id, result)

	r.host = r.newHost(toolThenDone("t1", "t2"))
	id, result = answerTo(first, "one")
	r.deliver(id, result)
	if n := r.count(schemas.EventAgentEnd); n != 1 {
		t.Fatalf("%d agent_end, want 1: %v", n, r.types())
	}
	if n := r.count(schemas.EventRunResumed); n != 0 {
		t.Error("a run that only waited was said to be resumed")
	}
}

func TestARestingCallIsLookedAfterByTheNextHost(t *testing.T) {
	r := newRig(t, toolThenDone("t1"))
	r.deliver("p1", prompt("go"))
	r.tools.take(t)
	r.host = r.newHost(toolThenDone("t1"))
	r.deliver("p1", prompt("go")) // redelivered after a crash
	if len(r.tools.again) != 2 || !r.tools.again[1] {
		t.Errorf("again = %v: the second dispatch has to look first", r.tools.again)
	}
}

func TestStaleHostNoticesAndReloads(t *testing.T) {
	done := func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) { return say("hi"), nil }
	r := newRig(t, modelFunc(done))
	stale := r.host
	r.deliver("p1", prompt("one"))
	r.host = r.newHost(modelFunc(done))
	r.deliver("p2", prompt("two"))
	r.host = stale
	r.deliver("p2", prompt("two"))
	r.deliver("p3", prompt("three"))
	if n := r.count(schemas.EventAgentEnd); n != 3 {
		t.Errorf("%d runs, want 3", n)
	}
}

// TestLosingTheSessionStopsTheDriver has another writer extend the log while the model is asked.
func TestLosingTheSessionStopsTheDriver(t *testing.T) {
	var r *rig
	r = newRig(t, modelFunc(func(ctx context.Context, _ schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		other, err := r.store.Open(ctx, "s1")
		if err != nil {
			return nil, err
		}
		e := r.events()[0]
		e.Seq = uint64(len(r.events()) + 1)
		e.Data = &schemas.ErrorEvent{Code: "test", Message: "someone else"}
		return callTool("t1"), other.Append(ctx, e)
	}))
	err := r.host.Deliver(t.Context(), command("p1", prompt("go")), nil)
	if !errors.Is(err, driver.ErrConflict) {
		t.Fatalf("got %v, want a conflict", err)
	}
	if len(r.tools.requests) != 0 {
		t.Error("a tool was dispatched after the session was lost")
	}
	if r.host.Held() != 0 {
		t.Error("the lost session is still held")
	}
}

func TestSteeringReachesTheRun(t *testing.T) {
	var r *rig
	calls := 0
	r = newRig(t, modelFunc(func(_ context.Context, req schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		if calls++; calls == 1 {
			r.deliver("st1", &schemas.Steer{Input: schemas.Input{Text: "left"}})
			return say("right"), nil
		}
		last := req.Messages[len(req.Messages)-1].(*schemas.UserMessage)
		return say("so " + last.Content.JoinText()), nil
	}))
	r.deliver("p1", prompt("go"))
	if calls != 2 || r.count(schemas.EventAgentEnd) != 1 {
		t.Fatalf("%d model calls, log %v", calls, r.types())
	}
	r.deliver("st2", &schemas.Steer{Input: schemas.Input{Text: "again"}})
	if n := r.count(schemas.EventAgentEnd); n != 2 {
		t.Errorf("a steer that found the session idle started no run: %d runs", n)
	}
}

func TestAbortReachesModelAndTools(t *testing.T) {
	t.Run("model", func(t *testing.T) {
		var r *rig
		r = newRig(t, modelFunc(func(ctx context.Context, _ schemas.ModelRequest) (*schemas.AssistantMessage, error) {
			r.deliver("a1", &schemas.Abort{})
			<-ctx.Done()
			return &schemas.AssistantMessage{StopReason: schemas.StopAborted, ErrorMessage: "aborted"}, nil
		}))
		r.deliver("p1", prompt("go"))
		r.wantEnd(schemas.EndAbort)
	})
	t.Run("tools", func(t *testing.T) {
		r := newRig(t, toolThenDone("t1"), func(o *driver.HostOptions) { o.AbortGrace = time.Millisecond })
		r.deliver("p1", prompt("go"))
		r.deliver("a1", &schemas.Abort{})
		if len(r.tools.cancelled) != 1 {
			t.Errorf("cancelled %v", r.tools.cancelled)
		}
		r.wantEnd(schemas.EndAbort)
		id, late := answerTo(r.tools.take(t), "late")
		before := len(r.events())
		r.deliver(id, late)
		if len(r.events()) != before {
			t.Error("a late result changed the log")
		}
	})
	t.Run("idle", func(t *testing.T) {
		r := newRig(t, toolThenDone())
		r.deliver("a1", &schemas.Abort{})
		if d := cmp.Diff([]string{"command_rejected"}, r.types()); d != "" {
			t.Error(d)
		}
	})
}

func (r *rig) wantEnd(want schemas.TerminationReason) {
	r.t.Helper()
	events := r.events()
	end, ok := events[len(events)-1].Data.(*schemas.AgentEnd)
	if !ok || end.TerminationReason != want {
		r.t.Errorf("ended with %+v, want %s; log %v", events[len(events)-1].Data, want, r.types())
	}
}

func TestRunsEndForTheirLimits(t *testing.T) {
	always := modelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		m := callTool("t1")
		m.Usage.TotalTokens, m.Usage.Cost.Total = 100, 0.5
		return m, nil
	})
	for want, limits := range map[schemas.TerminationReason]schemas.Limits{
		schemas.EndMaxTurns: {MaxTurns: 1}, schemas.EndBudget: {MaxCost: 0.4},
	} {
		r := newRig(t, always, func(o *driver.HostOptions) { o.Defaults.Limits = limits })
		r.deliver("p1", prompt("go"))
		id, result := answerTo(r.tools.take(t), "ok")
		r.deliver(id, result)
		r.wantEnd(want)
	}
	t.Run("idle", func(t *testing.T) {
		silent := modelFunc(func(ctx context.Context, _ schemas.ModelRequest) (*schemas.AssistantMessage, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		r := newRig(t, silent, func(o *driver.HostOptions) { o.IdleTimeout = 5 * time.Millisecond })
		r.deliver("p1", prompt("go"))
		r.wantEnd(schemas.TimeoutIdle)
	})
	t.Run("wall clock", func(t *testing.T) {
		var r *rig
		r = newRig(t, modelFunc(func(ctx context.Context, _ schemas.ModelRequest) (*schemas.AssistantMessage, error) {
			run := r.events()[len(r.events())-1].RunID
			r.deliver("timer", &schemas.Timer{Name: schemas.TimerRunDeadline, RunID: run})
			<-ctx.Done()
			return nil, ctx.Err()
		}))
		r.deliver("p1", prompt("go"))
		r.wantEnd(schemas.TimeoutRun)
	})
}

func TestAPanicIsAnErrorOfTheRun(t *testing.T) {
	r := newRig(t, modelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		panic("boom")
	}))
	r.deliver("p1", prompt("go"))
	r.wantEnd(schemas.EndError)
}

func TestWhenBusy(t *testing.T) {
	tests := map[schemas.WhenBusy][]string{
		schemas.BusyQueue:  {"r1", "go", "r2", "also"},
		schemas.BusyReject: {"r1", "go"},
		schemas.BusySteer:  {"r1", "go", "also"},
	}
	for busy, want := range tests {
		t.Run(string(busy), func(t *testing.T) {
			var r *rig
			first := true
			r = newRig(t, modelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
				if first {
					first = false
					r.deliver("p2", &schemas.Prompt{Input: schemas.Input{Text: "also"}, WhenBusy: busy})
				}
				return say("ok"), nil
			}))
			r.deliver("p1", prompt("go"))
			if d := cmp.Diff(want, r.asked()); d != "" {
				t.Errorf("runs and their inputs (-want +got):\n%s\n%v", d, r.types())
			}
		})
	}
}

// asked lists the runs and the user messages in them.
func (r *rig) asked() (out []string) {
	runs := 0
	for _, e := range r.events() {
		switch d := e.Data.(type) {
		case *schemas.AgentStart:
			runs++
			out = append(out, fmt.Sprintf("r%d", runs))
		case *schemas.MessageEnd:
			if m, ok := d.Message.Message.(*schemas.UserMessage); ok {
				out = append(out, m.Content.JoinText())
			}
		}
	}
	return out
}

func TestInterruptTakesThePlaceOfWhatWaits(t *testing.T) {
	var r *rig
	first := true
	r = newRig(t, modelFunc(func(ctx context.Context, _ schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		if !first {
			return say("ok"), nil
		}
		first = false
		r.deliver("p2", prompt("never"))
		r.deliver("p3", &schemas.Prompt{Input: schemas.Input{Text: "now"}, WhenBusy: schemas.BusyInterrupt})
		<-ctx.Done()
		return &schemas.AssistantMessage{StopReason: schemas.StopAborted}, nil
	}))
	r.deliver("p1", prompt("go"))
	if d := cmp.Diff([]string{"r1", "go", "r2", "now"}, r.asked()); d != "" {
		t.Error(d)
	}
	if r.count(schemas.EventCommandSuperseded) != 1 {
		t.Errorf("p2 has no outcome: %v", r.types())
	}
}

func TestAStoppedHostLeavesTheRunToTheNext(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	r := newRig(t, modelFunc(func(ctx context.Context, _ schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		stop()
		<-ctx.Done()
		return &schemas.AssistantMessage{StopReason: schemas.StopAborted}, nil
	}))
	if err := r.host.Deliver(ctx, command("p1", prompt("go")), nil); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	r.host = r.newHost(toolThenDone("t1"))
	r.deliver("p1", prompt("go"))
	id, result := answerTo(r.tools.take(t), "ok")
	r.deliver(id, result)
	r.wantEnd(schemas.EndNoToolCalls)
	if i := slices.Index(r.types(), "run_resumed"); i < 0 || r.types()[i-1] != "message_end" {
		t.Errorf("the reply that was being streamed was not closed and resumed: %v", r.types())
	}
}

func TestACommandGivenUpEndsItsRun(t *testing.T) {
	crash := modelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) { return say("x"), nil })
	r := newRig(t, crash)
	ctx, stop := context.WithCancel(t.Context())
	r.host = r.newHost(modelFunc(func(ctx context.Context, _ schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		stop() // the runner dies with every try
		<-ctx.Done()
		return nil, ctx.Err()
	}))
	_ = r.host.Deliver(ctx, command("p1", prompt("go")), nil)
	r.host = r.newHost(crash)
	refusal := schemas.CommandRejected{CommandID: "p1", Kind: schemas.CommandPrompt, Code: schemas.RejectDelivery, Reason: "too often"}
	if err := r.host.Reject(t.Context(), "s1", refusal); err != nil {
		t.Fatal(err)
	}
	r.wantEnd(schemas.EndAbort)
}

// clockwork keeps the timers that were asked for.
type clockwork struct{ calls chan string }

func (c clockwork) Schedule(_ context.Context, session string, _ time.Time, timer schemas.Timer) error {
	c.calls <- "set " + session + " " + timer.RunID
	return nil
}

func (c clockwork) Cancel(_ context.Context, session, name string) error {
	c.calls <- "cancel " + session + " " + name
	return nil
}

func TestARunSetsItsDeadlineAndTakesItBack(t *testing.T) {
	timers := clockwork{make(chan string, 10)}
	limited := func(o *driver.HostOptions) { o.Timers, o.Defaults.Limits.RunTimeoutMs = timers, 1000 }
	want := func(want string) {
		t.Helper()
		if got := <-timers.calls; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	r := newRig(t, toolThenDone("t1"), limited)
	r.deliver("p1", prompt("go"))
	want("set s1 r2")
	r.host = r.newHost(toolThenDone("t1"), limited)
	id, result := answerTo(r.tools.take(t), "ok")
	r.deliver(id, result)
	want("set s1 r2")
	want("cancel s1 run_deadline")
}

// flaky loses the answer to the first dispatch.
type flaky struct {
	*queue
	failed bool
}

func (f *flaky) Dispatch(ctx context.Context, req schemas.ToolRequest, again bool) error {
	if !f.failed {
		f.failed = true
		return errors.New("connection lost")
	}
	return f.queue.Dispatch(ctx, req, again)
}

func TestADispatchOfUnknownOutcomeIsLookedIntoAgain(t *testing.T) {
	r := newRig(t, toolThenDone("t1"), func(o *driver.HostOptions) { o.Tools = &flaky{queue: o.Tools.(*queue)} })
	if err := r.host.Deliver(t.Context(), command("p1", prompt("go")), nil); err == nil {
		t.Fatal("the prompt was taken as done")
	}
	r.deliver("p1", prompt("go")) // the queue delivers it again
	if len(r.tools.again) != 1 || !r.tools.again[0] {
		t.Errorf("again = %v", r.tools.again)
	}
	id, result := answerTo(r.tools.take(t), "ok")
	r.deliver(id, result)
	r.wantEnd(schemas.EndNoToolCalls)
}
