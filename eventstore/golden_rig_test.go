package eventstore_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/schemas"
)

// goldenRig is a runner on a store in memory, whose clock goes on by a second at every look.
type goldenRig struct {
	t       *testing.T
	store   *eventstore.Memory
	session string
	host    *host.Host
	options host.Options
	at      schemas.InboxPosition // of the next commands

	mu       sync.Mutex
	now      time.Time
	script   []func(ctx context.Context) *schemas.AssistantMessage // of the model; after it, it says "done"
	requests []schemas.ToolRequest                                 // that were dispatched
}

func newGoldenRig(t *testing.T, store *eventstore.Memory, session string, change func(*host.Options)) *goldenRig {
	r := &goldenRig{t: t, store: store, session: session, now: time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)}
	r.options = host.Options{
		Deps: driver.Deps{
			Model: (*goldenModel)(r), Tools: (*goldenTools)(r), Clock: (*goldenClock)(r),
			Source: "/loopbus/runner/golden", AbortGrace: time.Millisecond,
		},
		Open:    func(ctx context.Context, session string) (host.SessionLog, error) { return store.Open(ctx, session) },
		Toolbox: goldenToolbox{}, SnapshotEvery: 8,
		Defaults: schemas.RunConfig{
			Model: schemas.ModelRef{API: "golden", Provider: "acme", ID: "m1"}, SystemPrompt: "You are <helpful> & brief.",
			ThinkingLevel: schemas.ThinkingLow,
		},
	}
	if change != nil {
		change(&r.options)
	}
	r.restart()
	return r
}

// restart has another process go on.
func (r *goldenRig) restart() { r.host = host.New(r.options) }

func (r *goldenRig) try(id string, data schemas.CommandData) error {
	c := schemas.Command{ID: id, Session: r.session, Source: "/golden/client", Time: r.now, Data: data,
		InboxPosition: r.at}
	return r.host.Deliver(r.t.Context(), c, nil)
}

func (r *goldenRig) deliver(id string, data schemas.CommandData) {
	r.t.Helper()
	if err := r.try(id, data); err != nil {
		r.t.Fatalf("session %s: deliver %s: %v", r.session, id, err)
	}
}

// answer gives the result of the oldest call that was dispatched.
func (r *goldenRig) answer(result schemas.ToolResult, isError bool) {
	r.t.Helper()
	req := r.requests[0]
	r.requests = r.requests[1:]
	a := req.Answer("worker-1", result, isError, 1500*time.Millisecond)
	r.deliver(a.ID, &a.ToolResponse)
}

// die has the process die at the next event of a type, and another one go on: what was delivered is redelivered.
func (r *goldenRig) die(at schemas.EventType, id string, data schemas.CommandData) {
	r.t.Helper()
	r.fail(at)
	if err := r.try(id, data); err == nil {
		r.t.Errorf("session %s: nothing died at %s", r.session, at)
	}
	r.store.OnAppend = nil
	r.restart()
	r.deliver(id, data)
}

// fail has the store take no event of a type any more.
func (r *goldenRig) fail(at schemas.EventType) {
	r.store.OnAppend = func(e schemas.Event, stored bool) error {
		if !stored && e.Type() == at {
			return errors.New("the process dies")
		}
		return nil
	}
}

// state is what the log folds to.
func (r *goldenRig) state() *loop.State {
	r.t.Helper()
	s := &loop.State{Session: r.session}
	for e, err := range r.store.Read(r.t.Context(), r.session, 1) {
		if err == nil {
			err = s.Apply(e)
		}
		if err != nil {
			r.t.Fatal(err)
		}
	}
	return s
}

type goldenClock goldenRig

func (c *goldenClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(time.Second)
	return c.now
}

func (c *goldenClock) AfterFunc(_ time.Duration, f func()) func() bool {
	return time.AfterFunc(0, f).Stop
}

type goldenModel goldenRig

func (m *goldenModel) Stream(ctx context.Context, _ schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	return func(yield func(schemas.StreamEvent, error) bool) {
		reply := func(context.Context) *schemas.AssistantMessage {
			return golden(schemas.StopStop, schemas.Text{Text: "done"})
		}
		m.mu.Lock()
		if len(m.script) > 0 {
			reply, m.script = m.script[0], m.script[1:]
		}
		m.mu.Unlock()
		if yield(schemas.StreamEvent{Type: schemas.StreamStart}, nil) {
			yield(schemas.StreamEvent{Type: schemas.StreamDone, Message: reply(ctx)}, nil)
		}
	}
}

// golden is a reply.
func golden(stop schemas.StopReason, content ...schemas.Content) *schemas.AssistantMessage {
	return &schemas.AssistantMessage{
		Content: content, API: "golden", Provider: "acme", Model: "m1", StopReason: stop, Timestamp: 1770091506000,
		Usage: schemas.Usage{Input: 100, Output: 20, TotalTokens: 120,
			Cost: schemas.Cost{Input: 0.01, Output: 0.02, Total: 0.03}},
	}
}

func goldenCall(id, tool, args string) schemas.ToolCall {
	return schemas.ToolCall{ID: id, Name: tool, Arguments: json.RawMessage(args)}
}

type goldenTools goldenRig

func (q *goldenTools) Dispatch(_ context.Context, req schemas.ToolRequest, _ bool) error {
	q.requests = append(q.requests, req)
	return nil
}

func (q *goldenTools) Cancel(context.Context, string, schemas.CallKey, string) error { return nil }

type goldenToolbox struct{}

func (goldenToolbox) Definitions(context.Context) ([]schemas.ToolDefinition, error) {
	parameters := json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`)
	return []schemas.ToolDefinition{
		{Name: "read", Label: "Read", Description: "reads a file", Parameters: parameters, Effect: schemas.EffectReadOnly},
		{Name: "bash", Description: "runs a command", ExecutionMode: schemas.ExecuteSequential, TimeoutMs: 60_000},
	}, nil
}
