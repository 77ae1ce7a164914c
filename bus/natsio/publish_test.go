package natsio_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/natsio"
)

// The acknowledgement of a message may be lost with a connection. The message is then sent again.
func TestALostAcknowledgementIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	swallow, err := c.NATS().SubscribeSync("lost.ack")
	if err != nil {
		t.Fatal(err)
	}
	published := make(chan error, 1)
	go func() {
		_, err := natsio.Publish(bustest.Deadline(t), c.JetStream(), nats.NewMsg("lost.ack"))
		published <- err
	}()
	if _, err := swallow.NextMsg(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	if err := swallow.Unsubscribe(); err != nil {
		t.Fatal(err)
	}
	config := jetstream.StreamConfig{Name: "LOST", Subjects: []string{"lost.ack"}}
	if _, err := c.JetStream().CreateStream(bustest.Deadline(t), config); err != nil {
		t.Fatal(err)
	}
	if err := <-published; err != nil {
		t.Fatal(err)
	}
	if n := bustest.Messages(t, c, "LOST"); n != 1 {
		t.Errorf("%d messages are stored, want 1", n)
	}
}
