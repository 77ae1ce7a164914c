package eventstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

func (s *Store) snapshotBucket(ctx context.Context) (jetstream.KeyValue, error) {
	return bucket(s, &s.snapshots, schemas.BucketSnapshots, func() (jetstream.KeyValue, error) {
		return s.js.KeyValue(ctx, schemas.BucketSnapshots)
	})
}

func (s *Store) snapshotValue(ctx context.Context, key string) (value []byte, err error) {
	err = s.retry(ctx, func(ctx context.Context) error {
		bucket, err := s.snapshotBucket(ctx)
		if err != nil {
			return err
		}
		entry, err := bucket.Get(ctx, key)
		if err == nil {
			value = entry.Value()
		}
		return err
	})
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		err = nil
	}
	return value, err
}

// loadSnapshot returns the snapshot of a fold version; h.Seq is 0 if there is none. It does not check that the snapshot
// belongs to the log. An error wraps errBadSnapshot if the snapshot cannot be used.
func loadSnapshot(ctx context.Context, b backend, session string, version int,
) (h snapshotHeader, state []byte, err error) {
	value, err := b.snapshotValue(ctx, snapshotKey(session, version))
	if value == nil || err != nil {
		return snapshotHeader{}, nil, err
	}
	h, stored, err := decodeSnapshot(value)
	if err == nil && h.Object != "" {
		if stored, err = b.snapshotObject(ctx, h.Object); err != nil {
			return h, nil, err
		}
	}
	if err == nil && (h.Version != version || h.Seq == 0) {
		err = fmt.Errorf("its header has version %d and sequence %d", h.Version, h.Seq)
	}
	if err == nil {
		state, err = h.unpack(stored)
	}
	if err != nil {
		return h, nil, fmt.Errorf("%w: %w", errBadSnapshot, err)
	}
	return h, state, nil
}

var errBadSnapshot = errors.New("snapshot not usable")

func (s *Store) snapshotObject(ctx context.Context, name string) ([]byte, error) {
	size, err := s.PayloadSize(ctx, name)
	if err != nil {
		return nil, err
	}
	if size > maxState {
		return nil, fmt.Errorf("%w: %s has %d bytes, more than %d", errBadSnapshot, name, size, maxState)
	}
	data, err := s.object(ctx, name)
	if errors.Is(err, errLost) {
		err = fmt.Errorf("%w: %s: %w", errBadSnapshot, name, err)
	}
	return data, err
}

// checkSnapshot checks that the event of a snapshot is in the log, up to its head. It returns the end of the message
// before the one that has the event, where reading may begin: reading cannot begin in the middle of a commit.
func (l *Log) checkSnapshot(ctx context.Context, h snapshotHeader) (before position, err error) {
	head, _ := l.Stored()
	if h.Seq > head {
		return before, fmt.Errorf("%w: it is at event %d, the log ends at %d", errBadSnapshot, h.Seq, head)
	}
	rec, found, err := l.backend.at(ctx, l.session, h.Stream)
	if err != nil {
		return before, err
	}
	if !found {
		return before, fmt.Errorf("%w: its event %d is not in the log", errBadSnapshot, h.Seq)
	}
	first, last, err := rec.span(l.session)
	if err != nil || h.Seq < first || h.Seq > last {
		return before, fmt.Errorf("%w: its event %d is not in the message that it names", errBadSnapshot, h.Seq)
	}
	if got := rec.hash(); got != h.Hash {
		return before, fmt.Errorf("%w: event %d is in a message with the hash %s, in the log %s", errBadSnapshot, h.Seq,
			h.Hash, got)
	}
	return position{first - 1, rec.stream - 1}, nil
}

// Snapshot returns the newest saved state of the fold version, and the sequence of its event; seq is 0 if there is
// none. A snapshot whose event is not in this log, hash for hash, is ignored with a warning. The caller owns the state.
func (l *Log) Snapshot(ctx context.Context, version int) (state []byte, seq uint64, err error) {
	if head, _ := l.Stored(); head == 0 {
		return nil, 0, nil // the first event of a new session waits for nothing
	}
	h, state, err := loadSnapshot(ctx, l.backend, l.session, version)
	var before position
	if err == nil && h.Seq > 0 {
		before, err = l.checkSnapshot(ctx, h)
	}
	switch {
	case errors.Is(err, errBadSnapshot):
		l.o.Logger.Warn("snapshot ignored", "session", l.session, "seq", h.Seq, "version", version, "err", err)
		return nil, 0, nil
	case err != nil:
		return nil, 0, fmt.Errorf("eventstore: snapshot of session %s version %d: %w", l.session, version, err)
	case h.Seq == 0:
		return nil, 0, nil
	}
	l.mu.Lock()
	l.loaded = before
	l.mu.Unlock()
	return state, h.Seq, nil
}

// SaveSnapshot saves a state in place of the one before. The state is the fold of the events up to seq, by this version
// of the fold. SaveSnapshot waits until the event is stored. It does not retry: an error makes later loads slower and
// does no other harm. It returns at once if the connection is lost.
func (l *Log) SaveSnapshot(ctx context.Context, version int, seq uint64, state []byte) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("eventstore: save snapshot of session %s version %d seq %d: %w", l.session, version, seq, err)
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, l.o.OutcomeTimeout)
	defer cancel()
	if head, _ := l.Stored(); seq > head {
		if err := l.Flush(ctx); err != nil {
			return err
		}
	}
	rec, err := l.record(ctx, seq)
	if err != nil {
		return err
	}
	h := snapshotHeader{Version: version, Seq: seq, Stream: rec.stream, Hash: rec.hash()}
	return l.backend.saveSnapshot(ctx, l.session, h, state)
}

// DeleteSnapshots deletes the snapshots of a session, of all versions of the fold, without a trace. If there are none
// it returns nil.
func (s *Store) DeleteSnapshots(ctx context.Context, session string) error {
	if err := schemas.CheckSession(session); err != nil {
		return fmt.Errorf("eventstore: %w", err)
	}
	prefix := "$KV." + schemas.BucketSnapshots + "."
	err := s.retry(ctx, func(ctx context.Context) error {
		const name = "KV_" + schemas.BucketSnapshots
		info, err := natsio.LeaderInfo(ctx, s.js, name, jetstream.WithSubjectFilter(prefix+session+".*"))
		if err != nil {
			return err
		}
		stream, err := s.js.Stream(ctx, name)
		if err != nil {
			return err
		}
		for subject := range info.State.Subjects {
			if err := s.deleteObject(ctx, snapshotObjectName(strings.TrimPrefix(subject, prefix)), 0); err != nil {
				return err
			}
			if err := stream.Purge(ctx, jetstream.WithPurgeSubject(subject)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("eventstore: delete snapshots of session %s: %w", session, err)
	}
	return nil
}

func (s *Store) saveSnapshot(ctx context.Context, session string, h snapshotHeader, state []byte) error {
	value, object, err := encodeSnapshot(h, session, state, s.o.BlobThreshold)
	if err != nil {
		return err
	}
	if err := s.putSnapshot(ctx, snapshotKey(session, h.Version), value, object); err != nil {
		return err
	}
	// A session that was deleted in the meantime must not leave a snapshot.
	_, exists, err := s.once(ctx, getRequest{Seq: h.Stream})
	if err != nil || exists {
		return err
	}
	return s.DeleteSnapshots(ctx, session)
}

// putSnapshot stores a snapshot: first the object with its state, if there is one, then the value that names it. It
// makes one attempt only: the caller waits for it, and there will be another snapshot.
func (s *Store) putSnapshot(ctx context.Context, key string, value, object []byte) error {
	return s.attempt(ctx, func(ctx context.Context) error {
		if object != nil {
			bucket, err := s.blobBucket(ctx)
			if err != nil {
				return err
			}
			if err := s.replaceObject(ctx, bucket, snapshotObjectName(key), object); err != nil {
				return err
			}
		}
		bucket, err := s.snapshotBucket(ctx)
		if err != nil {
			return err
		}
		_, err = bucket.Put(ctx, key, value)
		return err
	})
}

// record returns the message that has an event. It goes back from the head, since every message names the one before
// it: snapshots are of an event at the head or near it.
func (l *Log) record(ctx context.Context, seq uint64) (record, error) {
	head, stream := l.Stored()
	if seq == 0 || seq > head {
		return record{}, fmt.Errorf("the log ends at %d", head)
	}
	for {
		rec, found, err := l.backend.at(ctx, l.session, stream)
		if err != nil {
			return record{}, err
		}
		if !found {
			return record{}, fmt.Errorf("%w: message %d of the stream does not exist", ErrDamaged, stream)
		}
		end, err := endBefore(ctx, l.backend, l.session, rec)
		if err != nil || !end.found {
			return record{}, errors.Join(err, fmt.Errorf("%w: no message before %d of the stream", ErrDamaged, stream))
		}
		rec = end.last
		first, last, err := rec.span(l.session)
		if err != nil || first <= seq && seq <= last {
			return rec, err
		}
		prev, ok := rec.prev()
		if !ok || prev == 0 || last < seq {
			return record{}, fmt.Errorf("%w: message %d of the stream does not lead back to event %d", ErrDamaged, stream, seq)
		}
		stream = prev
	}
}
