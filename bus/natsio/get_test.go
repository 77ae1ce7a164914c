package natsio_test

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/natsio"
)

// A stream without a leader answers nothing. A request that has no deadline does not wait for ever.
func TestARequestWithoutAnAnswerEnds(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	silent, err := jetstream.NewWithAPIPrefix(c.NATS(), "silent")
	if err != nil {
		t.Fatal(err)
	}
	sub, err := c.NATS().SubscribeSync("silent.STREAM.MSG.GET.leaderless")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, _, err := natsio.Last(t.Context(), silent, "leaderless", "s1")
		ended <- err
	}()
	if _, err := sub.NextMsg(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if !errors.Is(err, nats.ErrTimeout) {
			t.Errorf("error %v, want %v", err, nats.ErrTimeout)
		}
	case <-time.After(30 * time.Second):
		t.Error("the request has not ended")
	}
}
