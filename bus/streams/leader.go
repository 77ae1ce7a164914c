package streams

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
)

// Codes of nats-server for which nats.go has no names.
const (
	errCodeNoPeers     jetstream.ErrorCode = 10005 // too few servers to place the replicas on
	errCodeNotACluster jetstream.ErrorCode = 10074
)

// setupRequest bounds one step of Setup. A cluster may never answer a request that arrives while it elects the leader
// for it, or while another process makes the same request; it answers a second one.
const setupRequest = 3 * time.Second

// awaitLeader calls a step of Setup. It calls it again while the servers have no leader for it, and a few times if
// another process has changed what it found.
func awaitLeader(ctx context.Context, step func(ctx context.Context) error) error {
	for races := 0; ; {
		one, cancel := context.WithTimeout(ctx, setupRequest)
		err := step(one)
		cancel()
		switch {
		case raced(err) && races < setupAttempts:
			races++
		case leaderless(err):
		default:
			return err
		}
		if !natsio.Wait(ctx, natsio.RetryWait) {
			return fmt.Errorf("no leader, are most of the servers up? %w", err)
		}
	}
}

// raced reports whether another process has created or deleted the stream since it was looked up, or a server is
// missing that may just be starting. Only creating and updating a stream has these errors.
func raced(err error) bool {
	return natsio.IsAny(err, jetstream.ErrStreamNameAlreadyInUse, jetstream.ErrStreamNotFound) ||
		natsio.HasCode(err, errCodeNoPeers)
}

// leaderless reports whether servers have no leader for a request.
func leaderless(err error) bool {
	return natsio.Leaderless(err) ||
		natsio.IsAny(err, context.DeadlineExceeded, nats.ErrTimeout, nats.ErrNoResponders)
}

// explain adds what to do about servers that cannot store the requested replicas.
func (s spec) explain(err error) error {
	if s.given.Replicas < 2 {
		return err
	}
	switch {
	case natsio.HasCode(err, errCodeNotACluster):
		return fmt.Errorf("%d replicas need a cluster of at least %d servers, and this server stands alone: %w",
			s.given.Replicas, s.given.Replicas, err)
	case natsio.HasCode(err, errCodeNoPeers):
		return fmt.Errorf("%d replicas need as many servers with room for them: %w", s.given.Replicas, err)
	}
	return err
}
