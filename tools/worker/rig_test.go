package worker_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/dispatch"
	"github.com/loopbus/loopbus/bus/embedded"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
)

func TestMain(m *testing.M) { bustest.Main(m) }

// deadline is how long one step of a test may take on a busy machine.
const deadline = 60 * time.Second

// rig is a bus with the streams of a runner, a plain connection for the worker, and a subscription to the answers.
type rig struct {
	t       *testing.T
	conn    *bus.Conn
	js      jetstream.JetStream
	client  *nats.Conn
	results <-chan *nats.Msg
	seq     uint64
}

func newRig(t *testing.T) *rig {
	t.Helper()
	server := startServer(t)
	conn := setup(t, server)
	r := &rig{t: t, conn: conn, js: conn.JetStream(), client: connect(t, server)}
	r.results = r.subscribe("agent.cmd.*.tool_result")
	return r
}

func startServer(t *testing.T) *embedded.Server {
	t.Helper()
	server, err := embedded.Start(embedded.Options{StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	return server
}

func setup(t *testing.T, server *embedded.Server) *bus.Conn {
	t.Helper()
	conn, err := bus.Connect(t.Context(), bus.ConnOptions{InProcess: server})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	if err := streams.Setup(t.Context(), conn, streams.Options{}); err != nil {
		t.Fatal(err)
	}
	return conn
}

// connect connects without the options of package bus, as a program in another language would.
func connect(t *testing.T, server *embedded.Server) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect("", nats.InProcessServer(server))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// serve runs a worker until it is stopped or the test ends. stop returns what run returned.
func (r *rig) serve(run func(context.Context) error) (stop func() error) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	var err error
	go func() {
		defer close(done)
		err = run(ctx)
	}()
	stop = func() error {
		cancel()
		<-done
		return err
	}
	r.t.Cleanup(func() {
		if err := stop(); err != nil {
			r.t.Errorf("worker: %v", err)
		}
	})
	return stop
}

func (r *rig) subscribe(subject string) <-chan *nats.Msg {
	r.t.Helper()
	c := make(chan *nats.Msg, 1024)
	sub, err := r.conn.NATS().ChanSubscribe(subject, c)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = sub.Unsubscribe() }) // fails only on a closed connection
	if err := r.conn.NATS().Flush(); err != nil {
		r.t.Fatal(err)
	}
	return c
}

// call dispatches the next call of session s1.
func (r *rig) call(tool, args string) {
	r.t.Helper()
	r.seq += 2
	err := dispatch.New(r.conn).Dispatch(r.t.Context(), schemas.ToolRequest{
		Session: "s1", RunID: "r1", TurnID: "t1", Call: schemas.NewCallKey(r.seq), ToolCallID: "toolu_1", ToolName: tool,
		Arguments: json.RawMessage(args), StartSeq: r.seq,
	}, false)
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) lastCall() string { return string(schemas.NewCallKey(r.seq)) }

// result waits for the next answer and validates it against its schema.
func (r *rig) result() schemas.ToolResponse {
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
	return response
}

func (r *rig) wantResult(text string, isError bool) {
	r.t.Helper()
	if got := r.result(); got.Result.Content.JoinText() != text || got.IsError != isError {
		r.t.Errorf("call %s: error %v, text %q, want %v, %q", got.Call, got.IsError, got.Result.Content.JoinText(), isError,
			text)
	}
}

// announced waits for a tool's announcement.
func (r *rig) announced(tool string) (a schemas.ToolAnnouncement) {
	r.t.Helper()
	bustest.Eventually(r.t, "announcement of "+tool, func() bool {
		for _, entry := range r.bucket() {
			if err := json.Unmarshal(entry.Value(), &a); err == nil && a.Name == tool {
				return true
			}
		}
		return false
	})
	return a
}

func (r *rig) announcements() int { return len(r.bucket()) }

func (r *rig) bucket() (entries []jetstream.KeyValueEntry) {
	r.t.Helper()
	kv, err := r.js.KeyValue(r.t.Context(), schemas.BucketTools)
	if err != nil {
		r.t.Fatal(err)
	}
	watch, err := kv.WatchAll(r.t.Context(), jetstream.IgnoreDeletes())
	if err != nil {
		r.t.Fatal(err)
	}
	defer watch.Stop()
	for entry := range watch.Updates() {
		if entry == nil {
			return entries
		}
		entries = append(entries, entry)
	}
	return entries
}

// empty waits until every call is acknowledged.
func (r *rig) empty() {
	r.t.Helper()
	bustest.Eventually(r.t, "every call is acknowledged", func() bool {
		stream, err := r.js.Stream(r.t.Context(), schemas.StreamTools)
		return err == nil && stream.CachedInfo().State.Msgs == 0
	})
}

// gate returns a tool whose calls send their key to begun and then wait for pass.
func gate() (tool tools.Tool, begun <-chan string, pass chan struct{}) {
	entered, pass := make(chan string, 8), make(chan struct{})
	return tools.Tool{ToolDefinition: schemas.ToolDefinition{Name: "gate"},
		Execute: func(ctx context.Context, call tools.Call) (schemas.ToolResult, error) {
			entered <- string(call.Key)
			select {
			case <-pass:
			case <-ctx.Done():
			}
			return schemas.TextResult("passed"), tools.Interrupted(ctx)
		}}, entered, pass
}
