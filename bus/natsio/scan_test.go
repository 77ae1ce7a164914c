package natsio_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/natsio"
)

// A scan waits for its turn like every reader of the connection.
func TestAScanReservesItsAnswers(t *testing.T) {
	t.Parallel()
	ctx := bustest.Deadline(t)
	c := bustest.Connect(t, bustest.Server(t))
	js := c.JetStream()
	_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}, AllowDirect: true})
	if err == nil {
		_, err = js.Publish(ctx, "s", []byte("x"))
	}
	if err != nil {
		t.Fatal(err)
	}
	scan := func(ctx context.Context) (messages int, err error) {
		_, err = natsio.Scan(ctx, js, "S", 1, math.MaxUint64, func(natsio.Stored) error { messages++; return nil })
		return messages, err
	}
	release, err := natsio.Reserve(ctx, js.Conn(), math.MaxInt32)
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if n, err := scan(short); n != 0 || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while others have all: %d messages, %v", n, err)
	}
	release()
	if n, err := scan(ctx); n != 1 || err != nil {
		t.Errorf("afterwards: %d messages, %v", n, err)
	}
}
