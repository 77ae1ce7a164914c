package inbox_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/codec"
	"github.com/loopbus/loopbus/bus/inbox"
	"github.com/loopbus/loopbus/schemas"
)

var toolResult = []byte(`{"call":"c7","toolCallId":"toolu_1","toolName":"echo","isError":false,` +
	`"result":{"content":[{"type":"text","text":"a line of output, as tools have it"}]}}`)

// BenchmarkInbox measures what a tool result costs from its publication to the entry into Deliver, against the same
// with a bare consumer in place of the inbox, on the same stream, that reads the JSON, and one that decodes and
// validates as the inbox does.
func BenchmarkInbox(b *testing.B) {
	consumers := []struct {
		name  string
		start func(*testing.B, *bus.Conn, func())
	}{{"bare", bareConsumer(readOnly)}, {"validating", bareConsumer(validate)}, {"inbox", inboxConsumer}}
	for _, consumer := range consumers {
		b.Run("latency/"+consumer.name, func(b *testing.B) { latency(b, bustest.New(b), consumer.start) })
	}
	for _, consumer := range consumers {
		b.Run("throughput/"+consumer.name, func(b *testing.B) { throughput(b, bustest.New(b), consumer.start) })
	}
}

func readOnly(m jetstream.Msg) error {
	_, err := schemas.DecodeCommandData(schemas.CommandToolResult, m.Data())
	return err
}

func validate(m jetstream.Msg) error {
	_, err := codec.DecodeCommand("s1", schemas.CommandToolResult, m.Headers(), m.Data(), "id", time.Time{})
	return err
}

// bareConsumer calls got for every message of the stream, once it is decoded, and acknowledges it.
func bareConsumer(decode func(jetstream.Msg) error) func(*testing.B, *bus.Conn, func()) {
	return func(b *testing.B, c *bus.Conn, got func()) {
		consumer, err := c.JetStream().CreateConsumer(bustest.Deadline(b), schemas.StreamCommands, jetstream.ConsumerConfig{
			Durable: "bare", AckPolicy: jetstream.AckExplicitPolicy, FilterSubject: "agent.cmd.*.*.*"})
		if err != nil {
			b.Fatal(err)
		}
		cc, err := consumer.Consume(func(m jetstream.Msg) {
			if err := decode(m); err != nil {
				b.Error(err)
			}
			got()
			_ = m.Ack()
		})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(cc.Stop)
	}
}

func inboxConsumer(b *testing.B, c *bus.Conn, got func()) {
	bustest.RunInbox(b, c, inbox.Options{RunnerID: "r1"},
		&handlerFunc{deliver: func(_ context.Context, _ schemas.Command, entered func()) error {
			got()
			return nil
		}})
}

func commandMsg(c *bus.Conn, session string) *nats.Msg {
	return &nats.Msg{Subject: c.Subjects().Command(session, schemas.CommandToolResult), Data: toolResult}
}

type handlerFunc struct {
	bustest.NoHost
	deliver func(ctx context.Context, cmd schemas.Command, entered func()) error
}

func (h *handlerFunc) Deliver(ctx context.Context, cmd schemas.Command, entered func()) error {
	return h.deliver(ctx, cmd, entered)
}

func (h *handlerFunc) Reject(context.Context, string, schemas.CommandRejected) error { return nil }

func latency(b *testing.B, c *bus.Conn, start func(*testing.B, *bus.Conn, func())) {
	got := make(chan struct{}, 1)
	start(b, c, func() { got <- struct{}{} })
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.JetStream().PublishMsgAsync(commandMsg(c, "s1")); err != nil {
			b.Fatal(err)
		}
		select {
		case <-got:
		case <-time.After(10 * time.Second):
			b.Fatal("nothing came")
		}
	}
}

func throughput(b *testing.B, c *bus.Conn, start func(*testing.B, *bus.Conn, func())) {
	const window = 256
	room := make(chan struct{}, window)
	start(b, c, func() { <-room })
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		room <- struct{}{}
		if _, err := c.JetStream().PublishMsgAsync(commandMsg(c, fmt.Sprintf("s%d", n%64))); err != nil {
			b.Fatal(err)
		}
		n++
	}
	for range window { // the last ones
		room <- struct{}{}
	}
}
