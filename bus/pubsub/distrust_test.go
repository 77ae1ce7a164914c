package pubsub_test

import (
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/pubsub"
	"github.com/loopbus/loopbus/schemas"
)

// Somebody takes the ids beforehand that an answer will have: it is stored all the same.
func TestADistrustfulPublisherStoresWhatIsSaidToBeThere(t *testing.T) {
	t.Parallel()
	for distrust, want := range map[bool]uint64{false: 1, true: 2} {
		c := bustest.New(t)
		if _, err := c.JetStream().Publish(bustest.Deadline(t), "agent.cmd.other.tool_result", []byte("{}"),
			jetstream.WithMsgID("s1/c9/result")); err != nil {
			t.Fatal(err)
		}
		p := pubsub.NewPublisher(c.JetStream())
		p.Distrust = distrust
		if err := p.Publish("agent.cmd.s1.tool_result", message.NewMessage("s1/c9/result", []byte("{}"))); err != nil {
			t.Fatal(err)
		}
		if n := bustest.Messages(t, c, schemas.StreamCommands); n != want {
			t.Errorf("distrust %v: %d are stored, want %d", distrust, n, want)
		}
	}
}
