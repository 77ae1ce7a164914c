package registry

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
)

// rejoinWait is how long to wait before a watch that broke is begun again.
const rejoinWait = 500 * time.Millisecond

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
