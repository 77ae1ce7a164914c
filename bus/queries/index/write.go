package index

import (
	"context"
	"errors"
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
	maxConflicts = 5 // of one write: two runners write the entry of a session while it goes from one to the other
)

// codeConflictInFlight is how replicas refuse what another write of the subject is in flight for.
const codeConflictInFlight jetstream.ErrorCode = 10164

// write stores an entry, unless the bucket has one that is the fold of as much or more. It comes back to this index as
// to all others, by the watch: so that the index is that of a revision, without gaps.
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
		if !conflict(err) {
			break
		}
		var stored *Entry
		if stored, err = ix.refresh(ctx, session); err != nil {
			break
		}
		if stored != nil && stored.Stream >= e.Stream {
			return nil
		}
		made = stored == nil
	}
	return fmt.Errorf("index: write the entry of session %s at seq %d: %w", session, e.Summary.Seq, err)
}

// undo deletes an entry that was made at a revision, if the session has been deleted since it was folded.
func (ix *Index) undo(ctx context.Context, e *Entry, revision uint64) error {
	session := e.Summary.Session
	_, stream, err := ix.o.Logs.Head(ctx, session)
	if err != nil || stream >= e.Stream {
		return nil // or it is not known: the audit will see
	}
	kv, err := ix.js.KeyValue(ctx, schemas.BucketSessions)
	if err == nil {
		err = kv.Delete(ctx, keyPrefix+session, jetstream.LastRevision(revision))
	}
	if err != nil && !conflict(err) {
		return fmt.Errorf("index: delete the entry of session %s, which has no log: %w", session, err)
	}
	return nil
}

// publish stores a value in the bucket if its key is still at a revision, and returns the new one.
func (ix *Index) publish(ctx context.Context, key string, value []byte, at uint64) (uint64, error) {
	subject := natsio.KeySubject(ix.js, schemas.BucketSessions, key)
	ack, err := ix.js.PublishMsg(ctx, &nats.Msg{Subject: subject, Data: value},
		jetstream.WithExpectLastSequencePerSubject(at), natsio.UntilLeader())
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}

func conflict(err error) bool {
	return natsio.HasCode(err, jetstream.JSErrCodeStreamWrongLastSequence, codeConflictInFlight)
}

// known is the revision that a session's key has, as far as is known here.
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

// fence says which revision a session's key has, before the watch does.
func (ix *Index) fence(session string, revision uint64) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if revision == 0 || revision > ix.revision {
		ix.fences[session] = revision
	}
}

// refresh looks at what the bucket has of a session, which it returns; nil where that is nothing, or cannot be read.
func (ix *Index) refresh(ctx context.Context, session string) (*Entry, error) {
	stream, err := ix.js.Stream(ctx, "KV_"+schemas.BucketSessions)
	if err != nil {
		return nil, err
	}
	msg, err := stream.GetLastMsgForSubject(ctx, subjectPrefix+keyPrefix+session)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		ix.fence(session, 0)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	ix.fence(session, msg.Sequence)
	e, err := decodeEntry(session, msg.Data)
	if err != nil { // such as the marker of one that was deleted
		return nil, nil
	}
	return e, nil
}

// writeCheckpoint says that every message of the log up to a sequence of its stream is in the index, and returns once
// this index has it all.
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
