package index

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// A client can direct a server's answer to the keys of the bucket. Such a value covers an entry: runners that know the
// entry keep it, and the next runner that compares the index with the logs writes it again.

const (
	maxCovered = 4096             // keys remembered without an entry; more are found when the bucket is read again
	clearedTTL = 10 * time.Minute // of the marker of a cleared key
)

// uncover rewrites the covered entries. If a write fails, it is retried next time and does not stop the comparison.
func (ix *Index) uncover(ctx context.Context) {
	ix.mu.Lock()
	covered := maps.Clone(ix.covered)
	ix.mu.Unlock()
	var failed error
	for session, revision := range covered {
		if err := ix.uncoverOne(ctx, session, revision); err != nil {
			failed = err
			continue
		}
		ix.mu.Lock()
		if ix.covered[session] == revision {
			delete(ix.covered, session)
		}
		ix.mu.Unlock()
	}
	if len(covered) > 0 && ctx.Err() == nil {
		ix.o.Logger.Warn("rewrote index entries that were covered by invalid values", "keys", len(covered),
			"err", failed)
	}
}

// uncoverOne rewrites one entry. An unknown entry is folded from its log.
func (ix *Index) uncoverOne(ctx context.Context, session string, revision uint64) error {
	if e := ix.Get(session); e != nil {
		return ix.write(ctx, e)
	}
	e, err := ix.repair(ctx, session, 0)
	if err == nil && e == nil { // there is no log either
		err = ix.clear(ctx, session, revision)
	}
	return err
}

// clear deletes the key of a session that does not exist.
func (ix *Index) clear(ctx context.Context, session string, revision uint64) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	kv, err := ix.js.KeyValue(ctx, schemas.BucketSessions)
	if err == nil {
		err = kv.Purge(ctx, keyPrefix+session, jetstream.LastRevision(revision), jetstream.PurgeTTL(clearedTTL))
	}
	if err != nil && !natsio.Outdated(err) {
		return fmt.Errorf("index: clear the key of session %s, which has no log: %w", session, err)
	}
	return nil
}
