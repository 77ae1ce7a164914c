package index

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

const (
	writeTimeout = 5 * time.Second
	maxConflicts = 5 // per write: two runners write the entry while a session moves between them
)

// write stores an entry, unless the bucket has one folded from as many events or more. The index receives it like all
// others, through the watch, so that it always represents one revision without gaps.
func (ix *Index) write(ctx context.Context, e *Entry) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	session := e.Summary.Session
	value, err := e.encode()
	if err != nil {
		return fmt.Errorf("index: entry of session %s: %w", session, err)
	}
	made := ix.Get(session) == nil
	for range maxConflicts {
		var revision uint64
		if revision, err = ix.publish(ctx, keyPrefix+session, value, ix.known(session)); err == nil {
			ix.fence(session, revision)
			if made {
				return ix.undo(ctx, e, revision)
			}
			return nil
		}
		if !natsio.Outdated(err) {
			break
		}
		stored, failed := ix.refresh(ctx, session)
		if failed != nil {
			err = failed
			break
		}
		if stored != nil && stored.Stream >= e.Stream {
			return nil
		}
		made = stored == nil
	}
	return fmt.Errorf("index: write the entry of session %s at seq %d: %w", session, e.Summary.Seq, err)
}

// undo deletes an entry that was written at a revision, if its session has been deleted since it was folded.
func (ix *Index) undo(ctx context.Context, e *Entry, revision uint64) error {
	session := e.Summary.Session
	_, stream, err := ix.o.Logs.Head(ctx, session)
	if err != nil || stream >= e.Stream {
		return nil // exists, or unknown: the audit will find out
	}
	kv, err := ix.js.KeyValue(ctx, schemas.BucketSessions)
	if err == nil {
		err = kv.Delete(ctx, keyPrefix+session, jetstream.LastRevision(revision))
	}
	if err != nil && !natsio.Outdated(err) {
		return fmt.Errorf("index: delete the entry of session %s, which has no log: %w", session, err)
	}
	return nil
}

// publish stores a value in the bucket if its key is still at a revision, and returns the new revision.
func (ix *Index) publish(ctx context.Context, key string, value []byte, at uint64) (uint64, error) {
	subject := natsio.KeySubject(ix.js, schemas.BucketSessions, key)
	ack, err := ix.js.PublishMsg(ctx, &nats.Msg{Subject: subject, Data: value},
		jetstream.WithExpectLastSequencePerSubject(at), natsio.UntilLeader())
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

// known returns the known revision of a session's key.
func (ix *Index) known(session string) uint64 {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if revision, ok := ix.fences[session]; ok {
		return revision
	}
	if revision, ok := ix.covered[session]; ok {
		return revision
	}
	if e := ix.list.get(session); e != nil {
		return e.revision
	}
	return ix.gone[session]
}

// fence records the revision of a session's key before the watch receives it.
func (ix *Index) fence(session string, revision uint64) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if revision == 0 || revision > ix.revision {
		ix.fences[session] = revision
	}
}

// refresh reads a session's entry from the bucket; nil if there is none, or if it cannot be decoded.
func (ix *Index) refresh(ctx context.Context, session string) (*Entry, error) {
	msg, found, err := natsio.Last(ctx, ix.js, bucketStream, subjectPrefix+keyPrefix+session)
	if err != nil {
		return nil, err
	}
	if !found {
		ix.fence(session, 0)
		return nil, nil
	}
	ix.fence(session, msg.Sequence)
	e, err := decodeEntry(session, msg.Data)
	if err != nil { // for instance a deletion marker
		return nil, nil
	}
	return e, nil
}

// writeCheckpoint records that every message of the log up to a stream sequence is indexed, and returns once this
// index has received that.
func (ix *Index) writeCheckpoint(ctx context.Context, at uint64) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	ack, err := ix.js.Publish(ctx, natsio.KeySubject(ix.js, schemas.BucketSessions, keyCheckpoint),
		strconv.AppendUint(nil, at, 10), natsio.UntilLeader())
	if err == nil {
		err = ix.Wait(ctx, ack.Sequence)
	}
	if err != nil {
		return fmt.Errorf("index: write the checkpoint %d: %w", at, err)
	}
	return nil
}
