package dispatch_test

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/dispatch"
	"github.com/loopbus/loopbus/schemas"
)

// settled takes the only call out of the queue of echo and settles it, as a worker does.
func settled(t *testing.T, c *bus.Conn) schemas.ToolRequest {
	t.Helper()
	tools, err := c.JetStream().Stream(bustest.Deadline(t), schemas.StreamTools)
	if err != nil {
		t.Fatal(err)
	}
	queue, err := tools.CreateOrUpdateConsumer(bustest.Deadline(t), jetstream.ConsumerConfig{Durable: "echo"})
	if err != nil {
		t.Fatal(err)
	}
	msg, err := queue.Next()
	if err != nil {
		t.Fatalf("no call is in the queue: %v", err)
	}
	req, err := schemas.ParseToolRequest(msg.Data())
	if err == nil {
		err = msg.DoubleAck(bustest.Deadline(t))
	}
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// A session is purged and its id used again at once: its call has the key of an earlier one, and is another.
func TestACallOfASessionThatBeginsAnewIsDispatched(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	d := dispatch.New(c)
	for _, nonce := range []string{"first", "second"} {
		req := request("c9")
		req.Nonce = nonce
		for range 2 { // the second is the first once more, of a runner that did not know
			if err := d.Dispatch(bustest.Deadline(t), req, false); err != nil {
				t.Fatal(err)
			}
		}
		if got := settled(t, c); got.Nonce != nonce {
			t.Errorf("took the call %s", got.IdempotencyKey())
		}
		if err := d.Dispatch(bustest.Deadline(t), req, false); err != nil {
			t.Fatal(err)
		}
		if n := bustest.Messages(t, c, schemas.StreamTools); n != 0 {
			t.Errorf("a call that is settled was dispatched again")
		}
	}
}

// Somebody has taken the id of a call: it is stored all the same.
func TestACallWhoseIdIsTakenIsDispatched(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	if _, err := c.JetStream().Publish(bustest.Deadline(t), "agent.tool.other.s9.c9", []byte("{}"),
		jetstream.WithMsgID("s1/c9")); err != nil {
		t.Fatal(err)
	}
	if err := dispatch.New(c).Dispatch(bustest.Deadline(t), request("c9"), false); err != nil {
		t.Fatal(err)
	}
	tools, err := c.JetStream().Stream(bustest.Deadline(t), schemas.StreamTools)
	if err == nil {
		_, err = tools.GetLastMsgForSubject(bustest.Deadline(t), "agent.tool.echo.s1.c9")
	}
	if err != nil {
		t.Errorf("the call: %v", err)
	}
}
