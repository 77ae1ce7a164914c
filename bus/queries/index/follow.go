package index

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// Keys of the bucket: v1 is the checkpoint, v1.<session> an entry.
var (
	keyCheckpoint = fmt.Sprintf("v%d", Version)
	keyPrefix     = keyCheckpoint + "."
)

const (
	bucketStream  = "KV_" + schemas.BucketSessions
	subjectPrefix = "$KV." + schemas.BucketSessions + "."
)

// warnEvery is the minimum time between two log lines about a bucket that cannot be followed.
const warnEvery = 10 * time.Second

// run follows the bucket and compares it with the logs until ctx ends.
func (ix *Index) run(ctx context.Context) {
	var warned time.Time
	for ctx.Err() == nil {
		err := ix.follow(ctx)
		ix.lose()
		if err == nil || ctx.Err() != nil {
			continue
		}
		if time.Since(warned) >= warnEvery {
			ix.o.Logger.Warn("following the index of sessions failed, reading it again", "err", err)
			warned = time.Now()
		}
		natsio.Wait(ctx, rejoinWait)
	}
}

// follow reads the bucket and follows its changes until ctx ends, or the bucket turns out to be a different one. It
// returns nil if the connection was lost and is back.
//
// The bucket is read by requests, however slow the connection: a server ends the connection of a client to which it
// delivers more than it takes (decision 173). The consumer is there first, so that nothing is missed in between.
func (ix *Index) follow(ctx context.Context) error {
	stream, err := ix.js.Stream(ctx, bucketStream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if err = ix.o.Setup(ctx); err == nil {
			stream, err = ix.js.Stream(ctx, bucketStream)
		}
	}
	if err != nil {
		return fmt.Errorf("index: open the bucket %s: %w", schemas.BucketSessions, err)
	}
	info := stream.CachedInfo()
	push, err := natsio.NewPush(ctx, ix.js, bucketStream, subjectPrefix+">", info.State.LastSeq+1)
	if err != nil {
		return fmt.Errorf("index: watch the bucket %s: %w", schemas.BucketSessions, err)
	}
	defer push.Close()
	next, err := ix.load(ctx, ix.js.Conn().Stats().Reconnects)
	if err != nil {
		return err
	}
	g, watching := errgroup.WithContext(ctx)
	g.Go(func() error { return ix.watch(watching, push, next) })
	g.Go(func() error { return ix.compareLoop(watching, info.Created) })
	if err := g.Wait(); !errors.Is(err, errReconnected) {
		return err
	}
	return nil
}

// errReconnected ends the comparison with the logs too.
var errReconnected = errors.New("the connection was lost")

// load replaces what is known by the contents of the bucket. reconnects is how often the connection was lost and is
// back. It returns the sequence that follows the contents.
func (ix *Index) load(ctx context.Context, reconnects uint64) (next uint64, err error) {
	fresh := newContents(ix.contents) // only this goroutine changes either
	next, err = natsio.Scan(ctx, ix.js, bucketStream, 1, math.MaxUint64, func(m natsio.Stored) error {
		fresh.take(m)
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("index: read the bucket %s: %w", schemas.BucketSessions, err)
	}
	fresh.before = nil
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.contents, ix.reconnects = fresh, reconnects
	ix.move()
	select {
	case <-ix.ready:
	default:
		close(ix.ready)
	}
	return next, nil
}

// watch processes the changes of the bucket from a sequence on until ctx ends, or with the error that ends the
// consumer.
func (ix *Index) watch(ctx context.Context, push *natsio.Push, from uint64) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-push.Reconnected():
			return errReconnected
		case <-push.Silence():
			if err := push.Silent(); err != nil {
				return fmt.Errorf("index: watch the bucket %s: %w", schemas.BucketSessions, err)
			}
		case m := <-push.Messages:
			md, err := push.Received(m)
			if err != nil {
				return fmt.Errorf("index: watch the bucket %s: %w", schemas.BucketSessions, err)
			}
			if md == nil || md.Sequence.Stream < from { // a replica that was behind delivers again what was read
				continue
			}
			ix.mu.Lock()
			ix.take(natsio.Stored{Subject: m.Subject, Sequence: md.Sequence.Stream, Header: m.Header, Data: m.Data})
			ix.move()
			ix.mu.Unlock()
		}
	}
}

// move wakes whoever waits for a revision. mu is held.
func (ix *Index) move() {
	close(ix.moved)
	ix.moved = make(chan struct{})
}

// current reports whether the index includes everything that the logs had when it was compared, and has followed the
// bucket since, as far as it can know. mu is held.
func (ix *Index) current() bool {
	nc := ix.js.Conn()
	return ix.complete && nc.IsConnected() && nc.Stats().Reconnects == ix.reconnects
}

// lose records that the bucket is not followed any more.
func (ix *Index) lose() {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.complete = false
}
