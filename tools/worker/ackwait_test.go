package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/worker"
)

// blocking returns a tool whose calls run until release is closed.
func blocking(t *testing.T) (tool tools.Tool, release chan struct{}) {
	t.Helper()
	release = make(chan struct{})
	return tools.Tool{
		ToolDefinition: schemas.ToolDefinition{Name: "block", Parameters: []byte(`{"type":"object"}`)},
		Execute: func(ctx context.Context, call tools.Call) (schemas.ToolResult, error) {
			call.Update(schemas.TextResult("at work"))
			select {
			case <-release:
			case <-ctx.Done():
			}
			return schemas.TextResult("done"), nil
		},
	}, release
}

// A worker that starts updates the ack wait of an existing consumer, and changes nothing else of it.
func TestExistingConsumerGetsAckWaitOfWorker(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		ackWait time.Duration
		want    time.Duration
	}{
		{"by default", 0, worker.DefaultAckWait},
		{"as configured", 2 * time.Second, 2 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			old := worker.Consumer(r.conn.Subjects(), "block", 30*time.Second)
			old.Description, old.MaxAckPending = "created by another program", 7
			made, err := r.js.CreateConsumer(t.Context(), schemas.StreamTools, old)
			if err != nil {
				t.Fatal(err)
			}
			tool, _ := blocking(t)
			w, err := worker.New(worker.Options{ID: "w1", NC: r.client, Tools: []tools.Tool{tool}, AckWait: c.ackWait})
			if err != nil {
				t.Fatal(err)
			}
			r.serve(w.Run)
			r.announced("block")
			is, err := r.js.Consumer(t.Context(), schemas.StreamTools, "block")
			if err != nil {
				t.Fatal(err)
			}
			want := made.CachedInfo().Config
			want.AckWait = c.want
			if d := cmp.Diff(want, is.CachedInfo().Config); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// A worker sends a heartbeat every second even if the ack wait is long: another worker may shorten the ack wait at any
// time, and the running call must not count as lost then.
func TestHeartbeatsDoNotDependOnALongAckWait(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	tool, release := blocking(t)
	acks := r.subscribe("$JS.ACK.AGENT_TOOL.block.>")
	w, err := worker.New(worker.Options{ID: "w1", NC: r.client, Tools: []tools.Tool{tool}, AckWait: 5 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	r.serve(w.Run)
	r.announced("block")
	r.call("block", `{}`)
	if ack := bustest.Within(t, acks); string(ack.Data) != "+WPI" {
		t.Errorf("got %q before a heartbeat", ack.Data)
	}
	// Another worker sets a short ack wait. Longer than that passes, and the call is not redelivered.
	short := worker.Consumer(r.conn.Subjects(), "block", 2*time.Second)
	if _, err := r.js.UpdateConsumer(t.Context(), schemas.StreamTools, short); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if ack := bustest.Within(t, acks); string(ack.Data) != "+WPI" {
			t.Errorf("got %q, want a heartbeat", ack.Data)
		}
	}
	if again := r.pending(t, "block").NumRedelivered; again != 0 {
		t.Errorf("%d calls were redelivered", again)
	}
	close(release)
	r.wantResult("done", false)
	r.empty()
}

func (r *rig) pending(t *testing.T, queue string) *jetstream.ConsumerInfo {
	t.Helper()
	c, err := r.js.Consumer(t.Context(), schemas.StreamTools, queue)
	if err != nil {
		t.Fatal(err)
	}
	return c.CachedInfo()
}
