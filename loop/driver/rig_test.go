package driver_test

import (
	"context"
	"encoding/json"
	"iter"
	"sync"
	"testing"

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
