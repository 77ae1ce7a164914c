package registry

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/natsio"
)

// rejoinWait is how long to wait before a watch that broke is begun again.
const rejoinWait = 500 * time.Millisecond

// followBucket watches a bucket, again whenever the watch breaks, until stop is called, which waits for it.
func followBucket(c *bus.Conn, bucket string, log *slog.Logger, load func(all []jetstream.KeyValueEntry),
	next func(e jetstream.KeyValueEntry)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if err := watchBucket(ctx, c, bucket, load, next); err != nil && ctx.Err() == nil {
				log.Warn("watching a bucket", "bucket", bucket, "err", err)
				natsio.Wait(ctx, rejoinWait)
			}
		}
	}()
	return func() { cancel(); <-done }
}

// watchBucket follows a key-value bucket until ctx ends, which is no error. First it gives load everything that is
// there, and then every change to next.
func watchBucket(ctx context.Context, c *bus.Conn, bucket string, load func(all []jetstream.KeyValueEntry),
	next func(e jetstream.KeyValueEntry)) error {
	kv, err := c.JetStream().KeyValue(ctx, bucket)
	if err != nil {
		return err
	}
	watcher, err := kv.WatchAll(ctx)
	if err != nil {
		return err
	}
	defer watcher.Stop()
	var all []jetstream.KeyValueEntry
	loaded := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-watcher.Updates():
			switch {
			case !ok:
				return errors.New("registry: watch of " + bucket + " ended")
			case e == nil:
				load(all)
				all, loaded = nil, true
			case loaded:
				next(e)
			default:
				all = append(all, e)
			}
		}
	}
}
