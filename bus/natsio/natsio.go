// Package natsio has helpers for packages that use NATS: requests and reads that other clients cannot spoof, scans
// without a consumer, and classes of errors. It knows nothing of sessions and links no server.
package natsio

import (
	"context"
	"math"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// AwayTimeout bounds the wait for a server that is unavailable. After it the session is given up, and the runner
	// that takes it over reads what was stored.
	AwayTimeout = 10 * time.Second
	// RetryWait is the time between two attempts to reach a server that is unavailable.
	RetryWait = 100 * time.Millisecond
	// HeaderRoom is reserved for headers in a message of the largest size.
	HeaderRoom = 4 << 10
)

// UntilLeader makes a publish retry, until its context ends, while the stream has no leader: a leader that was killed
// is replaced within ten seconds. No server stores an attempt without a leader.
func UntilLeader() jetstream.PublishOpt { return jetstream.WithRetryAttempts(math.MaxInt32) }

// Wait waits for d. It returns false as soon as ctx ends.
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

// TimeToLive parses the TTL header of a message as the server does: a duration, or a number of seconds. It returns 0
// for a message that does not expire.
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

// Removed reports whether a message of a bucket removes its key: a client or the server has stored it for that.
func Removed(header nats.Header) bool {
	return header.Get("KV-Operation") != "" || header.Get(jetstream.MarkerReasonHeader) != ""
}
