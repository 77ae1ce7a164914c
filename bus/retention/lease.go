package retention

import (
	"context"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/codec"
	"github.com/loopbus/loopbus/bus/natsio"
)

const keyLease = "lease"

// lease acquires or renews the lease, and reports whether this keeper holds it. A keeper renews its lease until it
// stops.
func (k *Keeper) lease(ctx context.Context) (held bool, err error) {
	var lease natsio.Stored
	tail, err := k.o.Deleter.last(ctx, keyLease, func(m natsio.Stored) bool {
		if m.Unreadable || codec.IsAnswer(m.Header, m.Data) {
			return false // a server's answer is no lease
		}
		lease = m
		return true
	})
	ttl := max(3*k.o.Interval, time.Second) // the shortest TTL that servers support
	if err != nil || k.another(lease, 2*ttl) {
		return false, err
	}
	_, err = k.o.Deleter.replace(ctx, keyLease, tail, nats.Header{jetstream.MsgTTLHeader: {ttl.String()}}, []byte(k.o.ID))
	if natsio.Outdated(err) {
		return false, nil
	}
	return err == nil, err
}

// another reports whether another keeper holds the lease. A lease that is not renewed expires by its TTL. An entry
// without a TTL was not written by a keeper, and is respected no longer than atMost, by the clock of this process
// alone, which need not agree with the server's.
func (k *Keeper) another(lease natsio.Stored, atMost time.Duration) bool {
	if len(lease.Data) == 0 || string(lease.Data) == k.o.ID {
		return false
	}
	if k.held.revision != lease.Sequence {
		k.held.revision, k.held.since = lease.Sequence, time.Now()
	}
	return time.Since(k.held.since) < atMost
}
