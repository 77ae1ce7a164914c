package worker_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/worker"
)

// The queue of a client's tool, of which there may be one for each session, ends soon after its last worker.
func TestQueuesOfChannelsEndSoon(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, channel := range []bool{false, true} {
		tool := answering("look")
		tool.Channel = channel
		announced := make(chan struct{})
		o := worker.Options{ID: "w1", NC: r.client, Tools: []tools.Tool{tool}, Announced: func() { close(announced) }}
		want := 24 * time.Hour
		if channel {
			o.ID, o.Workspace, want = "w2", "client-1", 10*time.Minute
		}
		w, err := worker.New(o)
		if err != nil {
			t.Fatal(err)
		}
		r.serve(w.Run)
		queue := schemas.ToolQueue{Tool: "look", Workspace: o.Workspace}.Name()
		bustest.Within(t, announced)
		consumer, err := r.js.Consumer(t.Context(), schemas.StreamTools, queue)
		if err != nil {
			t.Fatal(err)
		}
		if got := consumer.CachedInfo().Config.InactiveThreshold; got != want {
			t.Errorf("queue %s may be idle for %v, want %v", queue, got, want)
		}
	}
}

// A queue that has ended takes no call with it: the next worker creates the queue again and gets them all.
func TestCallsOutliveTheirQueue(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	queue := worker.Consumer(r.conn.Subjects(), "look", 0)
	if _, err := r.js.CreateConsumer(t.Context(), schemas.StreamTools, queue); err != nil {
		t.Fatal(err)
	}
	r.call("look", `{}`)
	if err := r.js.DeleteConsumer(t.Context(), schemas.StreamTools, "look"); err != nil {
		t.Fatal(err)
	}
	r.call("look", `{}`)
	w, err := worker.New(worker.Options{ID: "w1", NC: r.client, Tools: []tools.Tool{answering("look")}})
	if err != nil {
		t.Fatal(err)
	}
	r.serve(w.Run)
	r.result()
	r.result()
	r.empty()
}

// A cluster that has just started refuses consumers for a while. A worker that starts waits.
func TestWorkerStartsOnceThereIsRoomForItsQueue(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	busy, err := jetstream.NewWithAPIPrefix(r.client, "busy")
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	_, err = r.client.Subscribe("busy.>", func(m *nats.Msg) {
		if strings.HasPrefix(m.Subject, "busy.CONSUMER.CREATE.") && refused < 3 {
			refused++
			_ = m.Respond([]byte(`{"error":{"code":503,"err_code":10023,"description":"insufficient resources"}}`))
			return
		}
		rest, _ := strings.CutPrefix(m.Subject, "busy.")
		if m.Subject = rest; !strings.HasPrefix(rest, "$KV.") {
			m.Subject = "$JS.API." + rest
		}
		_ = r.client.PublishMsg(m)
	})
	if err != nil {
		t.Fatal(err)
	}
	w, err := worker.New(worker.Options{ID: "w1", NC: r.client, JS: busy, Tools: []tools.Tool{answering("look")}})
	if err != nil {
		t.Fatal(err)
	}
	r.serve(w.Run)
	r.call("look", `{}`)
	r.result()
	if refused != 3 {
		t.Errorf("refused %d times", refused)
	}
}

// answering is a tool that answers at once.
func answering(name string) tools.Tool {
	return tools.Tool{
		ToolDefinition: schemas.ToolDefinition{Name: name, Parameters: []byte(`{"type":"object"}`)},
		Execute: func(context.Context, tools.Call) (schemas.ToolResult, error) {
			return schemas.TextResult("done"), nil
		},
	}
}
