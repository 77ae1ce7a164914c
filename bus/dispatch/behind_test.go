package dispatch_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/dispatch"
	"github.com/loopbus/loopbus/schemas"
)

// A replica that is behind does not know the call or its result. The call is not dispatched a second time.
func TestACallIsKnownThoughAReplicaIsBehind(t *testing.T) {
	t.Parallel()
	call, err := json.Marshal(request("c7"))
	if err != nil {
		t.Fatal(err)
	}
	result, err := schemas.Marshal(request("c7").Answer("w1", schemas.TextResult("done"), false, 0))
	if err != nil {
		t.Fatal(err)
	}
	for stream, tc := range map[string]struct {
		subject string
		data    []byte
		want    uint64 // calls in the queue
	}{
		schemas.StreamTools:    {"agent.tool.echo.s1.c7", call, 1},
		schemas.StreamCommands: {"agent.cmd.s1.tool_result", result, 0},
	} {
		t.Run(stream, func(t *testing.T) {
			t.Parallel()
			c, _ := bustest.Behind(t, stream)
			if _, err := c.JetStream().Publish(bustest.Deadline(t), tc.subject, tc.data); err != nil {
				t.Fatal(err)
			}
			if err := dispatch.New(c).Dispatch(bustest.Deadline(t), request("c7"), true); err != nil {
				t.Fatal(err)
			}
			if got := bustest.Messages(t, c, schemas.StreamTools); got != tc.want {
				t.Errorf("%d calls are queued, want %d", got, tc.want)
			}
		})
	}
}

// Somebody has taken the id of a call, with a message that a replica that is behind does not have.
func TestACallWhoseIdIsTakenIsDispatchedThoughAReplicaIsBehind(t *testing.T) {
	t.Parallel()
	c, _ := bustest.Behind(t, schemas.StreamTools)
	if _, err := c.JetStream().Publish(bustest.Deadline(t), "agent.tool.other.s9.c9", []byte("{}"),
		jetstream.WithMsgID("s1/c9")); err != nil {
		t.Fatal(err)
	}
	if err := dispatch.New(c).Dispatch(bustest.Deadline(t), request("c9"), false); err != nil {
		t.Fatal(err)
	}
	if got := bustest.Messages(t, c, schemas.StreamTools); got != 2 {
		t.Errorf("there are %d messages, want theirs and the call", got)
	}
}

// A caller looks whether its call is still in the queue, and a replica that is behind does not have it.
func TestACallThatWaitsIsNotGivenUpThoughAReplicaIsBehind(t *testing.T) {
	t.Parallel()
	c, _ := bustest.Behind(t, schemas.StreamTools)
	looked := make(chan *nats.Msg, 100)
	if _, err := c.NATS().ChanSubscribe("$JS.API.STREAM.MSG.GET.AGENT_TOOL", looked); err != nil {
		t.Fatal(err)
	}
	caller, err := dispatch.NewCaller(c, dispatch.CallerOptions{ID: "x1", LookEvery: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(caller.Close)
	ctx, cancel := context.WithCancelCause(bustest.Deadline(t))
	ended := make(chan error, 1)
	go func() {
		_, err := caller.Call(ctx, "x1", schemas.ToolDefinition{Name: "echo"}, json.RawMessage(`{}`), nil)
		ended <- err
	}()
	for range 5 {
		select {
		case <-looked:
		case err := <-ended:
			t.Fatalf("the call ended: %v", err)
		}
	}
	cancel(context.Canceled)
	<-ended
}
