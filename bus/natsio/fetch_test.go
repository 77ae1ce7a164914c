package natsio_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/natsio"
)

// late is a context whose deadline has passed, and that does not say so yet.
type late struct{ context.Context }

func (late) Deadline() (time.Time, bool) { return time.Now().Add(-time.Nanosecond), true }

func TestAFetchThatIsLateSaysSo(t *testing.T) {
	t.Parallel()
	ctx := bustest.Deadline(t)
	js := bustest.Connect(t, bustest.Server(t)).JetStream()
	_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := js.CreateConsumer(ctx, "S", jetstream.ConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := natsio.Fetch(late{ctx}, c, 1, 1<<10); !errors.Is(err, context.DeadlineExceeded) || !natsio.Passing(err) {
		t.Errorf("too late: %v", err)
	}
	if _, err := natsio.Fetch(ctx, c, 0, 1<<10); err == nil || errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no messages: %v", err)
	}
	if _, err := js.Publish(ctx, "s", []byte("x")); err != nil {
		t.Fatal(err)
	}
	batch, err := natsio.Fetch(ctx, c, 1, 1<<10)
	if err != nil {
		t.Fatal(err)
	}
	if m := <-batch.Messages(); m == nil || string(m.Data()) != "x" {
		t.Errorf("fetched %v, %v", m, batch.Error())
	}
}
