package index

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/schemas"
)

// ErrNoSession is wrapped by errors about a session that has no log.
var ErrNoSession = errors.New("no such session")

// Fresh returns the entry of a session as its log is now: what the index lacks is read from the log. It writes nothing.
// An error wraps [ErrNoSession] where there is no log, and [Options.Damaged] where that is damaged.
func (ix *Index) Fresh(ctx context.Context, session string) (*Entry, error) {
	_, stream, err := ix.o.Logs.Head(ctx, session)
	if err != nil {
		return nil, err
	}
	if stream == 0 {
		return nil, fmt.Errorf("index: session %s: %w", session, ErrNoSession)
	}
	base := ix.Get(session)
	if base != nil && base.Summary.Status == schemas.SessionDamaged {
		base = nil // what is known of it is not the fold of its log
	}
	if base != nil && base.Stream == stream {
		return base, nil
	}
	if base != nil && base.Stream < stream {
		e, err := ix.fold(ctx, base.clone(), session, stream)
		if err == nil || ix.o.Damaged == nil || !errors.Is(err, ix.o.Damaged) {
			return e, err
		}
		// The entry may be that of a log that was given up, and whose id another has taken.
	}
	return ix.fold(ctx, new(Entry), session, stream)
}

// fold folds what a log has behind an entry, up to a message of the stream, into the entry.
func (ix *Index) fold(ctx context.Context, e *Entry, session string, upTo uint64) (*Entry, error) {
	for ev, err := range ix.o.Logs.Between(ctx, session, e.Summary.Seq, e.Stream, upTo) {
		if err != nil {
			return nil, err
		}
		if !e.Apply(ev) {
			return nil, fmt.Errorf("index: session %s: event %d after %d", session, ev.Seq, e.Summary.Seq)
		}
	}
	e.Stream, e.revision = upTo, 0
	return e, nil
}

// repair writes the entry of a session as its log is now, which has had a message at a sequence of the stream. A log
// that is damaged gets an entry that says so; a session without a log loses its entry.
func (ix *Index) repair(ctx context.Context, session string, at uint64) (*Entry, error) {
	e, err := ix.Fresh(ctx, session)
	if errors.Is(err, ErrNoSession) {
		return nil, ix.drop(ctx, session)
	}
	if err != nil && ix.o.Damaged != nil && errors.Is(err, ix.o.Damaged) {
		ix.o.Logger.Warn("session is listed as damaged", "session", session, "err", err)
		e, err = ix.damaged(ctx, session, at, err)
	}
	if err != nil {
		return nil, err
	}
	if e.revision > 0 {
		return e, nil // as it is in the bucket
	}
	return e, ix.write(ctx, e)
}

// damaged is the entry of a session whose log cannot be folded: what is known of it, and why.
func (ix *Index) damaged(ctx context.Context, session string, at uint64, why error) (*Entry, error) {
	_, stream, err := ix.o.Logs.Head(ctx, session)
	if err != nil && !errors.Is(err, ix.o.Damaged) {
		return nil, err
	}
	e := new(Entry)
	if base := ix.Get(session); base != nil {
		e = base.clone()
	}
	e.endTurn()
	e.Run, e.revision = false, 0
	e.Stream = max(e.Stream, stream, at)
	s := &e.Summary
	s.Session, s.Status, s.Error = session, schemas.SessionDamaged, cut(why.Error(), maxText)
	s.Approvals, s.Queued = 0, 0
	return e, nil
}

// drop deletes the entry of a session that has no log, if there is one.
func (ix *Index) drop(ctx context.Context, session string) error {
	e := ix.Get(session)
	if e == nil {
		return nil
	}
	kv, err := ix.js.KeyValue(ctx, schemas.BucketSessions)
	if err == nil {
		err = kv.Delete(ctx, keyPrefix+session, jetstream.LastRevision(e.revision))
	}
	if err != nil && !conflict(err) {
		return fmt.Errorf("index: delete the entry of session %s, which has no log: %w", session, err)
	}
	return nil
}
