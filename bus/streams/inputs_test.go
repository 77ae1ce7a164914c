package streams_test

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/streams"
)

// Who may upload inputs may choose their subjects, each of which a server remembers: messages without a byte would fill
// its memory long before the bucket has its bytes. A bucket of before is bounded at the next start.
func TestMessagesOfInputsAreBounded(t *testing.T) {
	t.Parallel()
	c := bustest.Connect(t, bustest.Server(t))
	for range 2 {
		if err := streams.Setup(bustest.Deadline(t), c, streams.Options{}); err != nil {
			t.Fatal(err)
		}
		cfg := configOf(t, c, "OBJ_agent_inputs")
		if cfg.MaxMsgs <= 0 || cfg.MaxMsgs > 1<<17 {
			t.Fatalf("%d messages", cfg.MaxMsgs)
		}
		cfg.MaxMsgs = -1
		if _, err := c.JetStream().UpdateStream(bustest.Deadline(t), cfg); err != nil {
			t.Fatal(err)
		}
	}
	cfg := configOf(t, c, "OBJ_agent_inputs")
	cfg.MaxMsgs = 2
	if _, err := c.JetStream().UpdateStream(bustest.Deadline(t), cfg); err != nil {
		t.Fatal(err)
	}
	var err error
	for _, id := range []string{"a", "b", "c"} {
		_, err = c.JetStream().PublishMsg(bustest.Deadline(t), &nats.Msg{Subject: "$O.agent_inputs.C." + id})
	}
	if err == nil {
		t.Error("a message too many was taken: it has removed another")
	}
}
