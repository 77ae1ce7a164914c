package bus

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go/jetstream"
)

// watchBucket follows a key-value bucket until ctx ends, which is no error. First it gives load everything that is there, and
// then every change to next.
func (c *Conn) watchBucket(ctx context.Context, bucket string, load func(all []jetstream.KeyValueEntry), next func(e jetstream.KeyValueEntry)) error {
	kv, err := c.js.KeyValue(ctx, bucket)
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
				return errors.New("bus: watch of " + bucket + " ended")
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
