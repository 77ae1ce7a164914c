// Package natsio is what several packages need that speak to NATS. It knows nothing of sessions and links no server.
package natsio

import (
	"context"
	"math"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// AwayTimeout bounds the wait for a server that is away. After it the session is given up, and the runner that
	// takes it over reads what was stored.
	AwayTimeout = 10 * time.Second
	// RetryWait is the time between two attempts to reach a server that is away.
	RetryWait = 100 * time.Millisecond
	// HeaderRoom is left for headers in a message of the greatest size.
	HeaderRoom = 4 << 10
)

// UntilLeader has a message published again, until the context ends, while the stream has no leader: one that was
// killed is replaced within ten seconds. Such an attempt is stored by nobody.
func UntilLeader() jetstream.PublishOpt { return jetstream.WithRetryAttempts(math.MaxInt32) }

// Wait waits for d and reports whether ctx was alive all the time.
func Wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// TimeToLive reads the header of a message with a time to live as the server does: a duration or a number of seconds.
// It is 0 for what has no end.
func TimeToLive(header string) time.Duration {
	if seconds, err := strconv.ParseUint(header, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	ttl, err := time.ParseDuration(header)
	if err != nil || ttl < 0 {
		return 0
	}
	return ttl
}
