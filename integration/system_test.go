package integration_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/worker"
)

// deadline is how long a test waits for something that has to happen.
const deadline = 90 * time.Second

// system is a runner and a toolworker on one embedded file-store server, each on its own TCP connection.
type system struct {
	server  *bus.Server
	runner  *bus.Conn
	tools   *bus.Conn
	store   *eventstore.Store
	toolbox *bus.Toolbox
	ended   sync.Map // session -> chan struct{}, sent to at agent_end
}

// systemOptions say what a system has besides the echo tool. Model is required.
type systemOptions struct {
	model          driver.Model
	tools          []tools.Tool
	snapshotEvery  uint64
	updateInterval time.Duration
	limits         schemas.Limits
	abortGrace     time.Duration
}

func startServer(tb testing.TB, syncAlways bool) *bus.Server {
	tb.Helper()
	server, err := bus.StartServer(bus.ServerOptions{Listen: "127.0.0.1:0", StoreDir: tb.TempDir(), SyncAlways: syncAlways})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(server.Shutdown)
	return server
}

func connect(tb testing.TB, server *bus.Server, name string) *bus.Conn {
	tb.Helper()
	c, err := bus.Connect(tb.Context(), bus.ConnOptions{URL: server.ClientURL(), Name: name})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

// startSystem serves the model and an echo tool until the test ends.
func startSystem(tb testing.TB, server *bus.Server, model driver.Model) *system {
	tb.Helper()
	return startSystemWith(tb, server, systemOptions{model: model})
}

func startSystemWith(tb testing.TB, server *bus.Server, o systemOptions) *system {
	tb.Helper()
	s := &system{server: server, runner: connect(tb, server, "runner"), tools: connect(tb, server, "toolworker")}
	if err := bus.Setup(tb.Context(), s.runner, bus.StreamOptions{}); err != nil {
		tb.Fatal(err)
	}
	store, err := eventstore.New(s.runner.Events(), eventstore.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	s.store = store
	toolbox := bus.NewToolbox(s.runner, nil)
	tb.Cleanup(toolbox.Close)
	s.toolbox = toolbox
	host := driver.NewHost(driver.HostOptions{
		Open:  func(ctx context.Context, id string) (driver.SessionLog, error) { return store.Open(ctx, id) },
		Model: o.model, Tools: bus.NewDispatcher(s.runner), Toolbox: toolbox,
		Live:   bus.NewUpdates(s.runner, bus.UpdateOptions{Interval: o.updateInterval}),
		Timers: bus.NewTimers(s.runner), Source: "/loopbus/runner/bench", OnEvent: s.event, SnapshotEvery: o.snapshotEvery,
		Defaults:   schemas.RunConfig{Model: schemas.ModelRef{API: "scripted", Provider: "scripted", ID: "scripted"}, Limits: o.limits},
		AbortGrace: o.abortGrace,
		Logger:     slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	inbox, err := bus.NewInbox(s.runner, bus.InboxOptions{RunnerID: "bench"})
	if err != nil {
		tb.Fatal(err)
	}
	serve(tb, func(ctx context.Context) error { return inbox.Run(ctx, host) })
	served := append([]tools.Tool{echo}, o.tools...)
	serve(tb, s.worker(tb, served))
	wait, cancel := context.WithTimeout(tb.Context(), deadline)
	defer cancel()
	select {
	case <-inbox.Ready():
	case <-wait.Done():
		tb.Fatal("the inbox never became ready")
	}
	for _, tool := range served {
		if err := toolbox.Wait(wait, tool.Name); err != nil {
			tb.Fatal(err)
		}
	}
	return s
}

func (s *system) event(e schemas.Event) {
	if e.Type() != schemas.EventAgentEnd {
		return
	}
	if c, ok := s.ended.Load(e.Session); ok {
		c.(chan struct{}) <- struct{}{}
	}
}

// serve runs f until the test ends, and waits for it.
func serve(tb testing.TB, f func(ctx context.Context) error) {
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	tb.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			tb.Error(err)
		}
	})
}

// echo answers with its arguments.
var echo = tools.Tool{
	ToolDefinition: schemas.ToolDefinition{
		Name: "echo", Parameters: json.RawMessage(`{"type":"object","properties":{"v":{"type":"string"}}}`),
	},
	Execute: func(_ context.Context, call tools.Call, _ func(schemas.ToolResult)) (schemas.ToolResult, error) {
		return schemas.TextResult(string(call.Arguments)), nil
	},
}

func (s *system) worker(tb testing.TB, served []tools.Tool) func(ctx context.Context) error {
	w, err := worker.New(worker.Options{
		ID: "bench", NC: s.tools.NATS(), JS: s.tools.JetStream(), Tools: served, Raw: bus.RawMessage,
		Subscriber: func(tool string) (message.Subscriber, error) {
			return bus.NewSubscriber(s.tools, bus.SubscriberOptions{
				Stream: schemas.StreamTools, Concurrency: 64,
				Consumer: func(string) jetstream.ConsumerConfig { return worker.Consumer(s.tools.Subjects(), tool, 0) },
			})
		},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return w.Run
}

// run sends a prompt and waits for the end of its run.
func (s *system) run(tb testing.TB, session string) {
	c, _ := s.ended.LoadOrStore(session, make(chan struct{}, 1))
	subject := s.tools.Subjects().Command(session, schemas.CommandPrompt)
	if _, err := s.tools.JetStream().Publish(tb.Context(), subject, []byte("go")); err != nil {
		tb.Error(err)
		return
	}
	<-c.(chan struct{})
}

// send publishes a command and returns its sequence in the stream.
func (s *system) send(t *testing.T, session string, kind schemas.CommandKind, payload string) uint64 {
	t.Helper()
	ack, err := s.tools.JetStream().Publish(t.Context(), s.tools.Subjects().Command(session, kind), []byte(payload))
	if err != nil {
		t.Fatal(err)
	}
	return ack.Sequence
}

// messages is how many messages a stream holds, those that match the subject if there is one.
func (s *system) messages(t *testing.T, stream, subject string) uint64 {
	t.Helper()
	info, err := s.tools.JetStream().Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	if subject == "" {
		return info.CachedInfo().State.Msgs
	}
	detail, err := info.Info(t.Context(), jetstream.WithSubjectFilter(subject))
	if err != nil {
		t.Fatal(err)
	}
	var n uint64
	for _, count := range detail.State.Subjects {
		n += count
	}
	return n
}

// emptyInbox waits until every command is acknowledged.
func (s *system) emptyInbox(t *testing.T) {
	t.Helper()
	eventually(t, "the inbox is empty", func() bool { return s.messages(t, schemas.StreamCommands, "") == 0 })
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(deadline)
	for !ok() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("never happened: %s", what)
		}
	}
}
