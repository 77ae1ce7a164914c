package main

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/bus/queries"
	"github.com/loopbus/loopbus/bus/service"
	"github.com/loopbus/loopbus/cmd/wiring"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/driver/drivertest"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/worker"
)

// wait is how long a test waits for what has to happen.
const wait = 60 * time.Second

// scripts is a model that plays a script for each of its names.
type scripts struct {
	byName map[string]driver.Model
	gate   func(ctx context.Context, req schemas.ModelRequest) // if not nil, it is called before each reply
}

func (s *scripts) Stream(ctx context.Context, req schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	return func(yield func(schemas.StreamEvent, error) bool) {
		if s.gate != nil {
			s.gate(ctx, req)
		}
		for e, err := range s.byName[req.Model.ID].Stream(ctx, req) {
			if !yield(e, err) {
				return
			}
		}
	}
}

// rig is a world with a toolworker and a client, in which runners can be started.
type rig struct {
	*world
	model  *scripts
	asked  *drivertest.Recorder // of the model
	client *client.Client

	mu  sync.Mutex
	ran []string // arguments that the tools were executed with
}

// note is a reply that calls the tool note.
func note(text string, args ...string) scripted.Response {
	var calls []schemas.ToolCall
	for _, a := range args {
		calls = append(calls, schemas.ToolCall{Name: "note", Arguments: json.RawMessage(a)})
	}
	return scripted.Calls(text, calls...)
}

func newRig(t *testing.T, byName map[string]driver.Model) *rig {
	t.Helper()
	r := &rig{world: newWorld(t), model: &scripts{byName: byName}}
	r.asked = &drivertest.Recorder{Model: r.model}
	var err error
	if r.client, err = client.New(r.conn.NATS(), client.Options{Name: t.Name()}); err != nil {
		t.Fatal(err)
	}
	announced := make(chan struct{})
	w, err := worker.New(worker.Options{ID: "w1", NC: r.conn.NATS(), JS: r.conn.JetStream(), Subjects: r.conn.Subjects(),
		Tools:     []tools.Tool{r.tool("note", schemas.EffectUnsafe), r.tool("look", schemas.EffectReadOnly)},
		Announced: func() { close(announced) }})
	if err != nil {
		t.Fatal(err)
	}
	r.beside(w.Run)
	<-announced
	return r
}

// tool answers with its arguments and how often tools were executed so far.
func (r *rig) tool(name string, effect schemas.Effect) tools.Tool {
	def := schemas.ToolDefinition{Name: name, Effect: effect,
		Parameters: json.RawMessage(`{"type":"object","properties":{"n":{"type":"number"},"text":{"type":"string"}}}`)}
	return tools.Tool{ToolDefinition: def, Execute: func(_ context.Context, c tools.Call) (schemas.ToolResult, error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ran = append(r.ran, name+" "+string(c.Arguments))
		if string(c.Arguments) == `{"n":0}` {
			return schemas.ToolResult{}, tools.Failure("nothing to note")
		}
		return schemas.TextResult(fmt.Sprintf("%s %s as number %d", name, c.Arguments, len(r.ran))), nil
	}}
}

func (r *rig) executed() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ran)
}

// beside runs f until the test ends, or stop is called.
func (r *rig) beside(f func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = f(ctx)
	}()
	stop = func() { cancel(); <-ended }
	r.t.Cleanup(stop)
	return stop
}

// runner starts a runner that has the model m1 if nothing else is said. kill takes its connection away.
func (r *rig) runner(id string) (kill func()) {
	r.t.Helper()
	conn, err := bus.Connect(r.ctx(), bus.ConnOptions{URL: r.server.ClientURL(), Name: id})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(conn.Close)
	runner, err := wiring.New(r.ctx(), conn, wiring.Options{ID: id, Host: host.Options{Deps: driver.Deps{Model: r.asked},
		Defaults: schemas.RunConfig{Model: ref("m1"), ThinkingLevel: schemas.ThinkingLow}}})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(runner.Close)
	r.beside(func(ctx context.Context) error {
		return service.Run(ctx, conn.NATS(), service.Options{Name: "loopbus-runner", Version: "0.1.0", Busy: queries.Busy()},
			runner.Queries(wiring.Catalogue{Models: catalogued})...)
	})
	r.beside(func(ctx context.Context) error { return runner.Run(ctx) })
	select {
	case <-runner.Ready():
	case <-time.After(wait):
		r.t.Fatal("the runner never became ready")
	}
	if err := runner.Toolbox.Wait(r.ctx(), "note", "look"); err != nil {
		r.t.Fatal(err)
	}
	return conn.Close
}

// catalogued are the models that a runner tells of.
func catalogued() (list []schemas.ModelInfo) {
	for _, id := range []string{"m1", "m2"} {
		list = append(list, schemas.ModelInfo{API: "test", Provider: "test", ID: id})
	}
	return list
}

func ref(id string) schemas.ModelRef { return schemas.ModelRef{API: "test", Provider: "test", ID: id} }

// prompted sends a prompt and waits for the end of its run.
func (r *rig) prompted(session, text string) client.Result {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), wait)
	defer cancel()
	run, err := r.client.Session(session).Prompt(ctx, client.Text(text))
	if err != nil {
		r.t.Fatal(err)
	}
	result, err := run.Wait(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	return result
}

// log is what there is of a session.
func (r *rig) log(session string) (log []schemas.Event) {
	r.t.Helper()
	for e, err := range r.store.Read(r.ctx(), session, 1) {
		if err != nil {
			r.t.Fatal(err)
		}
		log = append(log, e)
	}
	return log
}

// results are the texts of a session's tool results, with a mark before errors.
func (r *rig) results(session string) (texts []string) {
	r.t.Helper()
	for _, e := range r.log(session) {
		if d, ok := e.Data.(*schemas.ToolExecutionEnd); ok {
			text := d.Result.Content.JoinText()
			if d.IsError {
				text = "error: " + text
			}
			texts = append(texts, text)
		}
	}
	return texts
}

// at is the sequence of the nth event of a session that f holds for.
func (r *rig) at(session string, n int, f func(schemas.Event) bool) string {
	r.t.Helper()
	for _, e := range r.log(session) {
		if f(e) {
			if n--; n == 0 {
				return fmt.Sprint(e.Seq)
			}
		}
	}
	r.t.Fatalf("session %s has no such event", session)
	return ""
}

// begins holds for the beginnings of messages of a role.
func begins(role schemas.Role) func(schemas.Event) bool {
	return func(e schemas.Event) bool {
		d, ok := e.Data.(*schemas.MessageStart)
		return ok && d.Role == role
	}
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

func jetstreamOf(t *testing.T, c *client.Client) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(c.NATS())
	if err != nil {
		t.Fatal(err)
	}
	return js
}
