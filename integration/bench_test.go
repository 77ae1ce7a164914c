package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
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
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/worker"
)

// system is a runner and a toolworker on one embedded file-store server, each on its own TCP connection.
type system struct {
	server *bus.Server
	runner *bus.Conn
	tools  *bus.Conn
	store  *eventstore.Store
	ended  sync.Map // session -> chan struct{}, sent to at agent_end
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
	host := driver.NewHost(driver.HostOptions{
		Open:  func(ctx context.Context, id string) (driver.SessionLog, error) { return store.Open(ctx, id) },
		Model: model, Tools: bus.NewDispatcher(s.runner), Toolbox: toolbox, Live: bus.NewUpdates(s.runner, bus.UpdateOptions{}),
		Timers: bus.NewTimers(s.runner), Source: "/loopbus/runner/bench", OnEvent: s.event,
		Defaults: schemas.RunConfig{Model: schemas.ModelRef{API: "scripted", Provider: "scripted", ID: "scripted"}},
		Logger:   slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	inbox, err := bus.NewInbox(s.runner, bus.InboxOptions{RunnerID: "bench"})
	if err != nil {
		tb.Fatal(err)
	}
	serve(tb, func(ctx context.Context) error { return inbox.Run(ctx, host) })
	serve(tb, s.worker(tb))
	<-inbox.Ready()
	if err := toolbox.Wait(tb.Context(), "echo"); err != nil {
		tb.Fatal(err)
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

func (s *system) worker(tb testing.TB) func(ctx context.Context) error {
	echo := tools.Tool{
		ToolDefinition: schemas.ToolDefinition{
			Name: "echo", Parameters: json.RawMessage(`{"type":"object","properties":{"v":{"type":"string"}}}`),
		},
		Execute: func(_ context.Context, call tools.Call, _ func(schemas.ToolResult)) (schemas.ToolResult, error) {
			return schemas.TextResult(string(call.Arguments)), nil
		},
	}
	w, err := worker.New(worker.Options{
		ID: "bench", NC: s.tools.NATS(), JS: s.tools.JetStream(), Tools: []tools.Tool{echo}, Raw: bus.RawMessage,
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

const turnsPerRun = 20

// toolTurns is a model that calls echo in every turn of a run but the last.
func toolTurns(tb testing.TB, turns int) driver.Model {
	var responses []scripted.Response
	for range turns {
		responses = append(responses, scripted.Calls("", schemas.ToolCall{Name: "echo", Arguments: json.RawMessage(`{"v":"x"}`)}))
	}
	model, err := scripted.NewScripts(scripted.Options{}, scripted.Script{Responses: append(responses, scripted.Text("done"))})
	if err != nil {
		tb.Fatal(err)
	}
	return model
}

// BenchmarkToolTurn measures tool turns: the floor, which is the least JetStream work they need, and loopbus, in turn
// on the same server. Figures and what they mean: docs/performance.md.
func BenchmarkToolTurn(b *testing.B) {
	for _, sync := range []bool{false, true} {
		for _, sessions := range []int{1, 64} {
			b.Run(fmt.Sprintf("sync_always=%v/sessions=%d", sync, sessions), func(b *testing.B) {
				benchmarkToolTurn(b, sync, sessions)
			})
		}
	}
}

// rounds is how often floor and loopbus take turns, so that a drift of the machine meets both.
const rounds = 4

func benchmarkToolTurn(b *testing.B, syncAlways bool, sessions int) {
	server := startServer(b, syncAlways)
	s := startSystem(b, server, toolTurns(b, turnsPerRun))
	f := startFloor(b, server)
	s.run(b, "warm")
	f.run(b, "warm", turnsPerRun)
	runs := max(1, b.N/(turnsPerRun*sessions*rounds))
	before := s.bytes(b)
	var ours, floor time.Duration
	b.ResetTimer()
	for round := range rounds {
		ours += timed(sessions, func(i int) {
			for r := range runs {
				s.run(b, fmt.Sprintf("s%d-%d-%d", round, i, r))
			}
		})
		floor += timed(sessions, func(i int) {
			f.run(b, fmt.Sprintf("f%d-%d", round, i), runs*turnsPerRun)
		})
	}
	b.StopTimer()
	turns := float64(rounds * sessions * runs * turnsPerRun)
	report(b, turns, ours, floor, sessions)
	b.ReportMetric(float64(s.bytes(b)-before)/turns, "bytes/turn")
}

func report(b *testing.B, turns float64, ours, floor time.Duration, sessions int) {
	b.ReportMetric(0, "ns/op")
	if sessions == 1 {
		b.ReportMetric(float64(ours.Microseconds())/turns, "µs/turn")
		b.ReportMetric(float64(floor.Microseconds())/turns, "floor-µs/turn")
		b.ReportMetric(float64(ours)/float64(floor), "×floor-time")
		return
	}
	b.ReportMetric(turns/ours.Seconds(), "turns/s")
	b.ReportMetric(turns/floor.Seconds(), "floor-turns/s")
	b.ReportMetric(float64(floor)/float64(ours), "×floor-throughput")
}

// timed runs f once per session, all at once, and returns how long all took.
func timed(sessions int, f func(i int)) time.Duration {
	var wg sync.WaitGroup
	start := time.Now()
	for i := range sessions {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
	return time.Since(start)
}

func (s *system) bytes(tb testing.TB) uint64 {
	stream, err := s.runner.JetStream().Stream(tb.Context(), schemas.StreamEvents)
	if err != nil {
		tb.Fatal(err)
	}
	return stream.CachedInfo().State.Bytes
}
