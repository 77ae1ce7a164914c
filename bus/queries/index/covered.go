package index

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/schemas"
)

// A server answers wherever somebody has it answer, also at the keys of the bucket. What lies over an entry and cannot
// be read as one takes it from nobody who has it, and whoever compares the index with the log next writes the entry
// again.

const (
	maxCovered = 4096             // keys that are remembered without an entry; more are found by a later reading
	clearedTTL = 10 * time.Minute // of the mark of a key that was cleared
)

// cover records what lies over a session's entry. mu is held.
func (ix *Index) cover(session string, revision uint64) {
	if schemas.CheckSession(session) == nil && (ix.list.get(session) != nil || len(ix.covered) < maxCovered) {
		ix.covered[session] = revision
	}
}

// uncover writes the entries again that something lies over. What cannot be written is tried again the next time, and
// keeps nothing else from being compared.
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
		ix.o.Logger.Warn("keys of the index had what is no entry: entries are written again", "keys", len(covered),
			"err", failed)
	}
}

// uncoverOne writes one entry again. One that nobody has had is read from its log.
func (ix *Index) uncoverOne(ctx context.Context, session string, revision uint64) error {
	if e := ix.Get(session); e != nil {
		return ix.write(ctx, e)
	}
	e, err := ix.repair(ctx, session, 0)
	if err == nil && e == nil { // nor is there a log
		err = ix.clear(ctx, session, revision)
	}
	return err
}

// clear removes what a key has of a session that there is not.
func (ix *Index) clear(ctx context.Context, session string, revision uint64) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	kv, err := ix.js.KeyValue(ctx, schemas.BucketSessions)
	if err == nil {
		err = kv.Purge(ctx, keyPrefix+session, jetstream.LastRevision(revision), jetstream.PurgeTTL(clearedTTL))
	}
	if err != nil && !conflict(err) {
		return fmt.Errorf("index: clear the key of session %s, which has no log: %w", session, err)
	}
	return nil
}
