package registry

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/natsio"
)

const (
	pollEvery   = 500 * time.Millisecond
	pollFor     = time.Minute // until a consumer is tried again
	pollTimeout = 10 * time.Second
)

// pollBucket does for a while what watchBucket does, without a consumer: whoever may make one of a bucket can make as
// many as there may be (decision 136).
func pollBucket(ctx context.Context, c *bus.Conn, bucket string, ends *expiry, load func(all []entry),
	next func(e entry)) error {
	var all []entry
	take := func(e entry) { all = append(all, e) }
	from, loaded := uint64(1), false
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for begun := time.Now(); time.Since(begun) < pollFor; {
		if ctx.Err() != nil {
			return nil
		}
		asking, cancel := context.WithTimeout(ctx, pollTimeout)
		var err error
		from, err = natsio.Scan(asking, c.JetStream(), "KV_"+bucket, from, math.MaxUint64, func(m natsio.Stored) error {
			if e, ttl, ok := entryOf(m, bucket); ok {
				if !e.foreign {
					ends.set(e, ttl)
				}
				take(e)
			}
			return nil
		})
		cancel()
		if err != nil {
			return fmt.Errorf("registry: bucket %s, whose stream has no consumer left: %w", bucket, err)
		}
		if !loaded {
			load(all)
			all, take, loaded = nil, next, true
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		case <-ends.due():
			for _, e := range ends.over(time.Now()) {
				next(e)
			}
		}
	}
	return nil
}
