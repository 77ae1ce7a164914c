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

// blocking is a tool whose calls last until go on is closed.
func blocking(t *testing.T) (tool tools.Tool, goOn chan struct{}) {
	t.Helper()
	goOn = make(chan struct{})
	return tools.Tool{
		ToolDefinition: schemas.ToolDefinition{Name: "block", Parameters: []byte(`{"type":"object"}`)},
		Execute: func(ctx context.Context, call tools.Call) (schemas.ToolResult, error) {
			call.Update(schemas.TextResult("at work"))
			select {
			case <-goOn:
			case <-ctx.Done():
			}
			return schemas.TextResult("done"), nil
		},
	}, goOn
}

// A consumer of an older deployment gets the ack wait of the worker that starts, and nothing else of it changes.
func TestAConsumerIsUpgraded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		ackWait time.Duration
		want    time.Duration
	}{
		{"by default", 0, worker.DefaultAckWait},
		{"to what is asked for", 2 * time.Second, 2 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			old := worker.Consumer(r.conn.Subjects(), "block", 30*time.Second)
			old.Description, old.MaxAckPending = "made by somebody else", 7
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

// Heartbeats come every second even where the consumer waits longer: another worker may shorten its ack wait at any
// time, and the call of this one must not be taken for lost then.
func TestHeartbeatsDoNotDependOnALongAckWait(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	tool, goOn := blocking(t)
	acks := r.subscribe("$JS.ACK.AGENT_TOOL.block.>")
	w, err := worker.New(worker.Options{ID: "w1", NC: r.client, Tools: []tools.Tool{tool}, AckWait: 5 * time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	r.serve(w.Run)
	r.announced("block")
	r.call("block", `{}`)
	if ack := bustest.Within(t, acks); string(ack.Data) != "+WPI" {
		t.Errorf("%q has come before a heartbeat", ack.Data)
	}
	// Another worker starts that wants to notice losses early: now its ack wait passes, and the call is not given away.
	short := worker.Consumer(r.conn.Subjects(), "block", 2*time.Second)
	if _, err := r.js.UpdateConsumer(t.Context(), schemas.StreamTools, short); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if ack := bustest.Within(t, acks); string(ack.Data) != "+WPI" {
			t.Errorf("%q has come, want a heartbeat", ack.Data)
		}
	}
	if again := r.pending(t, "block").NumRedelivered; again != 0 {
		t.Errorf("%d calls were given away", again)
	}
	close(goOn)
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
