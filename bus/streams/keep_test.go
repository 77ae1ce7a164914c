package streams_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/schemas"
)

// A stream in memory is gone with its server. The stream of updates is there again soon after each restart.
func TestUpdatesAreKeptAfterARestart(t *testing.T) {
	t.Parallel()
	addr, start := bustest.Restartable(t)
	s := start()
	c := bustest.Dial(t, bus.ConnOptions{URL: "nats://" + addr})
	if err := streams.Setup(bustest.Deadline(t), c, streams.Options{}); err != nil {
		t.Fatal(err)
	}
	want := configOf(t, c, schemas.StreamUpdates)
	ctx, cancel := context.WithCancel(t.Context())
	var keeping sync.WaitGroup
	defer keeping.Wait()
	defer cancel()
	keeping.Go(func() { streams.Keep(ctx, c, streams.Options{}, slog.New(slog.DiscardHandler)) })
	for range 3 {
		s.Shutdown()
		bustest.Eventually(t, "the connection is down", func() bool { return !c.Connected() })
		s = start()
		bustest.Eventually(t, "the stream is back", func() bool {
			// A server that is starting may never answer a request.
			once, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			_, err := c.JetStream().Stream(once, schemas.StreamUpdates)
			return err == nil
		})
	}
	got := configOf(t, c, schemas.StreamUpdates)
	if got.Storage != want.Storage || got.MaxBytes != want.MaxBytes || got.MaxMsgSize != want.MaxMsgSize {
		t.Errorf("the stream is %+v, and was %+v", got, want)
	}
}
