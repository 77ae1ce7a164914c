//go:build unix

package load_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/integration/internal/process"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/worker"
)

const (
	toolTally = "tally"
	// Subjects with which a test and its workers wait for each other.
	subjectReady = "load.ready" // a worker is connected
	subjectServe = "load.serve" // all workers are connected and may serve
	subjectBegun = "load.begun" // a worker has its first call
	subjectGo    = "load.go"    // all workers have a call and may execute

	workerSlots = 8
)

// workerConfig is the configuration of a worker process.
type workerConfig struct {
	ID    string
	URL   string
	Tally string // file to which all workers append a line at the start of each execution
	Echo  bool   // serve echo only
}

// serve runs a worker process. It serves the tally tool on request, and the bare calls of the latency comparison.
func serve(ctx context.Context, c workerConfig) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	conn, err := bus.Connect(ctx, bus.ConnOptions{URL: c.URL, Name: c.ID, Logger: log})
	if err != nil {
		return err
	}
	defer conn.Close()
	if c.Echo {
		return serveEcho(ctx, c, conn, log)
	}
	file, err := os.OpenFile(c.Tally, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	stopBare, err := serveBare(ctx, conn)
	if err != nil {
		return err
	}
	defer stopBare()
	goAhead := make(chan struct{})
	if _, err := conn.NATS().Subscribe(subjectGo, once(goAhead)); err != nil {
		return err
	}
	if err := rendezvous(ctx, conn, subjectServe, subjectReady, c.ID); err != nil {
		return err
	}
	w, err := worker.New(worker.Options{
		ID: c.ID, NC: conn.NATS(), JS: conn.JetStream(), Subjects: conn.Subjects(), Logger: log, Concurrency: workerSlots,
		Tools: []tools.Tool{tallyTool(conn, c.ID, file, goAhead)},
	})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// serveEcho serves a tool that does nothing, with a slot for each session.
func serveEcho(ctx context.Context, c workerConfig, conn *bus.Conn, log *slog.Logger) error {
	w, err := worker.New(worker.Options{ID: c.ID, NC: conn.NATS(), JS: conn.JetStream(), Subjects: conn.Subjects(),
		Logger: log, Concurrency: atOnce, Tools: []tools.Tool{system.Echo}})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// tallyTool appends a line for each execution, in one write, so that lines of several processes do not mix. It reports
// its first call to the test; no call ends before the test allows it.
func tallyTool(conn *bus.Conn, id string, file *os.File, goAhead <-chan struct{}) tools.Tool {
	var first sync.Once
	return tools.Tool{
		ToolDefinition: schemas.ToolDefinition{Name: toolTally, Effect: schemas.EffectUnsafe},
		Execute: func(ctx context.Context, call tools.Call) (schemas.ToolResult, error) {
			if _, err := fmt.Fprintln(file, id, call.Session, call.Session+"/"+string(call.Key)); err != nil {
				return schemas.ToolResult{}, err
			}
			var err error
			first.Do(func() { err = conn.NATS().Publish(subjectBegun, []byte(id)) })
			if err != nil {
				return schemas.ToolResult{}, err
			}
			select {
			case <-goAhead:
				return schemas.TextResult("counted"), nil
			case <-ctx.Done():
				return schemas.ToolResult{}, tools.Interrupted(ctx)
			}
		},
	}
}

// workers has the worker processes of a test.
type workers struct {
	tally string
	ready chan string
	begun chan string
}

// startWorkers starts n processes, which end with the test, and returns when all are connected.
func startWorkers(t *testing.T, s *system.Runner, url string, n int) *workers {
	t.Helper()
	dir := t.TempDir()
	w := &workers{tally: filepath.Join(dir, "tally"), ready: make(chan string, n), begun: make(chan string, n)}
	listen(t, s.Conn, subjectReady, w.ready)
	listen(t, s.Conn, subjectBegun, w.begun)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		id := fmt.Sprintf("w%d", i)
		config, err := json.Marshal(workerConfig{ID: id, URL: url, Tally: w.tally})
		if err != nil {
			t.Fatal(err)
		}
		log := filepath.Join(dir, id+".log")
		p, err := process.Start(process.Command{Name: id, Path: self,
			Env: append(os.Environ(), configVariable+"="+string(config)), Dir: dir, Log: log})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { end(t, p, log) })
	}
	await(t, w.ready, n, "workers are connected")
	return w
}

// end stops a worker process gracefully, and logs its output if the test has failed.
func end(t testing.TB, p *process.Process, log string) {
	if err := p.Terminate(); err != nil {
		t.Error(err)
	}
	select {
	case <-p.Done():
	case <-time.After(system.Deadline):
		t.Errorf("a worker did not stop: %v", p.Kill())
	}
	if t.Failed() {
		said, _ := os.ReadFile(log)
		t.Logf("%s: %s\n%s", filepath.Base(log), p.Ended(), said)
	}
}
