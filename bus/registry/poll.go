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
	pollFor     = time.Minute      // then watchBucket requests a consumer again
	pollTimeout = 10 * time.Second // of one scan of the stream
)

// pollBucket does the same as watchBucket, but without a consumer, and returns after pollFor. A client that may create
// consumers of a bucket can create as many as the stream allows, so that none is left for a runner (decision 136).
func pollBucket(ctx context.Context, c *bus.Conn, bucket string, expiring *expiry, load func(all []entry),
	next func(e entry)) error {
	var all []entry
	process := func(e entry) { all = append(all, e) }
	from, loaded := uint64(1), false
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for start := time.Now(); time.Since(start) < pollFor; {
		if ctx.Err() != nil {
			return nil
		}
		scanning, cancel := context.WithTimeout(ctx, pollTimeout)
		var err error
		from, err = natsio.Scan(scanning, c.JetStream(), "KV_"+bucket, from, math.MaxUint64, func(m natsio.Stored) error {
			if e, ttl, ok := entryOf(m, bucket); ok {
				if !e.foreign {
					expiring.set(e, ttl)
				}
				process(e)
			}
			return nil
		})
		cancel()
		if err != nil {
			return fmt.Errorf("registry: poll bucket %s, whose stream has reached its limit of consumers: %w", bucket, err)
		}
		if !loaded {
			load(all)
			all, process, loaded = nil, next, true
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		case <-expiring.due():
			for _, e := range expiring.expired(time.Now()) {
				next(e)
			}
		}
	}
	return nil
}
