package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/dispatch"
	"github.com/loopbus/loopbus/bus/embedded"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/bash"
	"github.com/loopbus/loopbus/tools/worker"
)

func TestMain(m *testing.M) {
	bash.RunHelper()
	actAsProcess()
	bustest.Main(m)
}

// deadline is for one step of a test on a busy machine.
const deadline = 60 * time.Second

// shortWait is when a call is given to another worker in tests about just that. A worker has to show heartbeats within
// it, also on a busy machine.
const shortWait = time.Second

// A rig is a bus of its own with a client that asks for calls and sees the answers.
type rig struct {
	t       *testing.T
	server  *embedded.Server
	conn    *bus.Conn
	results chan *nats.Msg
	updates chan *nats.Msg
	taps    []*nats.Subscription
	ackWait time.Duration // of the workers' consumers
	seq     uint64
}

func newRig(t *testing.T) *rig {
	t.Helper()
	server, err := embedded.Start(embedded.Options{StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	r := &rig{t: t, server: server, results: make(chan *nats.Msg, 256), updates: make(chan *nats.Msg, 1024),
		ackWait: deadline}
	r.conn = r.connect()
	if err := streams.Setup(r.ctx(), r.conn, streams.Options{}); err != nil {
		t.Fatal(err)
	}
	for subject, c := range map[string]chan *nats.Msg{
		"agent.cmd.*.tool_result": r.results, "agent.live.*.update": r.updates,
	} {
		sub, err := r.conn.NATS().ChanSubscribe(subject, c)
		if err != nil {
			t.Fatal(err)
		}
		r.taps = append(r.taps, sub)
	}
	return r
}

func (r *rig) connect() *bus.Conn {
	r.t.Helper()
	conn, err := bus.Connect(r.ctx(), bus.ConnOptions{InProcess: r.server})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(conn.Close)
	return conn
}

func (r *rig) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	r.t.Cleanup(cancel)
	return ctx
}

// A running worker. stop drains it and returns what Run returned.
type running struct {
	stop func() error
	done <-chan struct{}
}

// serve runs a worker on a connection of its own until the test ends.
func (r *rig) serve(concurrency int, o worker.Options) *running {
	r.t.Helper()
	conn := r.connect()
	o.NC, o.JS, o.Subjects = conn.NATS(), conn.JetStream(), conn.Subjects()
	o.Concurrency, o.AckWait = concurrency, r.ackWait
	o.BegunAfter = time.Hour // a busy machine may take long over what is tested: the tools' own updates
	if o.ID == "" {
		o.ID = "w1"
	}
	w, err := worker.New(o)
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = w.Run(ctx)
	}()
	run := &running{done: done, stop: func() error {
		cancel()
		<-done
		return err
	}}
	r.t.Cleanup(func() {
		if err := run.stop(); err != nil {
			r.t.Errorf("worker %s: %v", o.ID, err)
		}
	})
	for _, tool := range o.Tools {
		tool.Workspace = cmp.Or(tool.Workspace, o.Workspace)
		queue := tool.Queue().Name()
		bustest.Eventually(r.t, "announcement of "+queue, func() bool { return r.announcement(queue, o.ID) != nil })
	}
	return run
}

func (r *rig) announcement(queue, id string) jetstream.KeyValueEntry {
	r.t.Helper()
	kv, err := r.conn.JetStream().KeyValue(r.ctx(), schemas.BucketTools)
	if err != nil {
		r.t.Fatal(err)
	}
	entry, err := kv.Get(r.ctx(), schemas.AnnouncementKey(queue, id))
	if err != nil {
		return nil
	}
	return entry
}

// request makes the next call of session s1.
func (r *rig) request(tool, args string) schemas.ToolRequest {
	r.seq += 2
	return schemas.ToolRequest{
		Session: "s1", RunID: "r1", TurnID: "t1", Call: schemas.NewCallKey(r.seq), ToolCallID: fmt.Sprintf("toolu_%d", r.seq),
		ToolName: tool, Arguments: json.RawMessage(args), StartSeq: r.seq,
	}
}

func (r *rig) dispatch(req schemas.ToolRequest) schemas.ToolRequest {
	r.t.Helper()
	if err := dispatch.New(r.conn).Dispatch(r.ctx(), req, false); err != nil {
		r.t.Fatal(err)
	}
	return req
}

func (r *rig) call(tool, args string) schemas.ToolRequest {
	r.t.Helper()
	return r.dispatch(r.request(tool, args))
}

// answer is the next result, validated by its schema.
func (r *rig) answer() (schemas.ToolResponse, *nats.Msg) {
	r.t.Helper()
	msg := bustest.Within(r.t, r.results)
	id, data, err := schemas.ParseCommand(schemas.CommandToolResult, msg.Data)
	if err != nil {
		r.t.Fatalf("result %s: %v", msg.Data, err)
	}
	response := *data.(*schemas.ToolResponse)
	if want := "result/" + string(response.Call); id != want {
		r.t.Errorf("command id %q, want %q", id, want)
	}
	return response, msg
}

func (r *rig) wantText(want string, isError bool) schemas.ToolResponse {
	r.t.Helper()
	got, _ := r.answer()
	if text := got.Result.Content.JoinText(); text != want || got.IsError != isError {
		r.t.Errorf("call %s: error %v, text %q, want %v, %q", got.Call, got.IsError, text, isError, want)
	}
	return got
}

// waiting is how many calls have not been acknowledged.
func (r *rig) waiting() uint64 {
	r.t.Helper()
	stream, err := r.conn.JetStream().Stream(r.ctx(), schemas.StreamTools)
	if err != nil {
		r.t.Fatal(err)
	}
	return stream.CachedInfo().State.Msgs
}

func (r *rig) settled() {
	r.t.Helper()
	bustest.Eventually(r.t, "every call is acknowledged", func() bool { return r.waiting() == 0 })
}

type execute = func(ctx context.Context, call tools.Call) (schemas.ToolResult, error)

func newTool(name string, effect schemas.Effect, do execute) tools.Tool {
	return tools.Tool{ToolDefinition: schemas.ToolDefinition{Name: name, Effect: effect}, Execute: do}
}

// echo answers with its arguments.
func echo(_ context.Context, call tools.Call) (schemas.ToolResult, error) {
	return schemas.TextResult(string(call.Arguments)), nil
}

// run is the program but for its process. Variables of the tests are no settings.
func run(ctx context.Context, args []string, getenv func(string) string, environ []string, stdin io.Reader, stdout,
	stderr io.Writer) error {
	ours := func(v string) bool { return strings.HasPrefix(v, "LOOPBUS_TEST_") }
	environ = slices.DeleteFunc(slices.Clone(environ), ours)
	p, _ := program()
	return p.Run(ctx, args, &cli.IO{Stdin: stdin, Stdout: stdout, Stderr: stderr, Getenv: getenv, Environ: environ})
}

// parse reads a command line.
func parse(args []string, getenv func(string) string) (*options, error) {
	p, o := program()
	_, err := p.Parse(args, &cli.IO{Getenv: getenv, Stdout: io.Discard, Stderr: io.Discard})
	return o, err
}
