// Package looptest has the fakes that tests of drivers and hosts share.
package looptest

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/schemas"
)

// ModelFunc is a model that answers by a function of the request.
type ModelFunc func(ctx context.Context, req schemas.ModelRequest) (*schemas.AssistantMessage, error)

func (f ModelFunc) Stream(ctx context.Context, req schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	return func(yield func(schemas.StreamEvent, error) bool) {
		if req.OnPayload != nil { // as a model does whose requests are JSON
			if _, err := req.OnPayload(ctx, json.RawMessage(`{"model":"m"}`)); err != nil {
				yield(schemas.StreamEvent{}, err)
				return
			}
		}
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

func Say(text string) *schemas.AssistantMessage {
	return &schemas.AssistantMessage{Content: schemas.Contents{schemas.Text{Text: text}}, StopReason: schemas.StopStop}
}

func CallTool(ids ...string) *schemas.AssistantMessage {
	m := &schemas.AssistantMessage{StopReason: schemas.StopToolUse}
	for _, id := range ids {
		m.Content = append(m.Content, schemas.ToolCall{ID: id, Name: "echo",
			Arguments: json.RawMessage(`{"v":"` + id + `"}`)})
	}
	return m
}

// ToolThenDone calls echo once for each id and then replies done.
func ToolThenDone(ids ...string) ModelFunc {
	return func(_ context.Context, req schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		for _, m := range req.Messages {
			if m.MessageRole() == schemas.RoleToolResult {
				return Say("done"), nil
			}
		}
		return CallTool(ids...), nil
	}
}

// Queue is the tool side of a bus: it records what was dispatched.
type Queue struct {
	mu        sync.Mutex
	Requests  []schemas.ToolRequest
	Again     []bool
	Cancelled []schemas.CallKey
	Came      chan struct{}
}

func NewQueue() *Queue { return &Queue{Came: make(chan struct{}, 100)} }

func (q *Queue) Dispatch(_ context.Context, req schemas.ToolRequest, again bool) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.Requests, q.Again = append(q.Requests, req), append(q.Again, again)
	q.Came <- struct{}{}
	return nil
}

func (q *Queue) Cancel(_ context.Context, _ string, call schemas.CallKey, _ string) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.Cancelled = append(q.Cancelled, call)
	q.Came <- struct{}{}
	return nil
}

func (q *Queue) Take(t *testing.T) schemas.ToolRequest {
	t.Helper()
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.Requests) == 0 {
		t.Fatal("no tool call was dispatched")
	}
	req := q.Requests[0]
	q.Requests = q.Requests[1:]
	return req
}

// TakeAll removes and returns what has been dispatched.
func (q *Queue) TakeAll() []schemas.ToolRequest {
	q.mu.Lock()
	defer q.mu.Unlock()
	all := q.Requests
	q.Requests = nil
	return all
}

type EchoBox struct{}

func (EchoBox) Definitions(context.Context) ([]schemas.ToolDefinition, error) {
	return []schemas.ToolDefinition{{Name: "echo"}}, nil
}

type Rig struct {
	T     *testing.T
	Store *eventstore.Memory
	Tools *Queue
	Host  *host.Host
}

func New(t *testing.T, model driver.Model, change ...func(*host.Options)) *Rig {
	r := &Rig{T: t, Store: eventstore.NewMemory(), Tools: NewQueue()}
	r.Host = r.NewHost(model, change...)
	return r
}

func (r *Rig) NewHost(model driver.Model, change ...func(*host.Options)) *host.Host {
	o := host.Options{
		Open: func(ctx context.Context, session string) (host.SessionLog, error) {
			return r.Store.Open(ctx, session)
		},
		Deps: driver.Deps{Model: model, Tools: r.Tools, Source: "/loopbus/runner/test"}, Toolbox: EchoBox{},
		Defaults: schemas.RunConfig{Model: schemas.ModelRef{ID: "m"}},
	}
	for _, f := range change {
		f(&o)
	}
	return host.New(o)
}

func (r *Rig) Deliver(id string, data schemas.CommandData) {
	r.T.Helper()
	if err := r.Host.Deliver(r.T.Context(), Command(id, data), nil); err != nil {
		r.T.Fatalf("deliver %s: %v", id, err)
	}
}

func Command(id string, data schemas.CommandData) schemas.Command {
	return schemas.Command{ID: id, Session: "s1", Data: data}
}

func Prompt(text string) *schemas.Prompt { return &schemas.Prompt{Input: schemas.Input{Text: text}} }

func AnswerTo(req schemas.ToolRequest, text string) (string, *schemas.ToolResponse) {
	return "result-" + string(req.Call), &schemas.ToolResponse{
		Call: req.Call, ToolCallID: req.ToolCallID, ToolName: req.ToolName, Result: schemas.TextResult(text),
		Nonce: req.Nonce,
	}
}

func (r *Rig) Events() []schemas.Event {
	r.T.Helper()
	log, err := r.Store.Open(r.T.Context(), "s1")
	if err != nil {
		r.T.Fatal(err)
	}
	var events []schemas.Event
	for e, err := range log.Read(r.T.Context(), 1) {
		if err != nil {
			r.T.Fatal(err)
		}
		events = append(events, e)
	}
	return events
}

func (r *Rig) Types() []string {
	var types []string
	for _, e := range r.Events() {
		types = append(types, string(e.Type()))
	}
	return types
}

func (r *Rig) Count(kind schemas.EventType) (n int) {
	for _, e := range r.Events() {
		if e.Type() == kind {
			n++
		}
	}
	return n
}

// BlockingModel sends on Asked when it is called, and replies hi when Free can be received from or its context ends.
type BlockingModel struct {
	Asked, Free chan struct{}
}

func NewBlockingModel() *BlockingModel {
	return &BlockingModel{Asked: make(chan struct{}, 10), Free: make(chan struct{})}
}

func (m *BlockingModel) Answer(ctx context.Context, _ schemas.ModelRequest) (*schemas.AssistantMessage, error) {
	m.Asked <- struct{}{}
	select {
	case <-m.Free:
		return Say("hi"), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (r *Rig) WantEnd(want schemas.TerminationReason) {
	r.T.Helper()
	events := r.Events()
	end, ok := events[len(events)-1].Data.(*schemas.AgentEnd)
	if !ok || end.TerminationReason != want {
		r.T.Errorf("ended with %+v, want %s; log %v", events[len(events)-1].Data, want, r.Types())
	}
}

// Asked returns the runs and the user messages in them.
func (r *Rig) Asked() (out []string) {
	runs := 0
	for _, e := range r.Events() {
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

// Stacks returns the stacks of the goroutines of this process that contain what.
func Stacks(what string) (stacks []string) {
	buf := make([]byte, 1<<20)
	for _, g := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		if strings.Contains(g, what) {
			stacks = append(stacks, g)
		}
	}
	return stacks
}
