package index

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// ErrNoSession is wrapped by errors about a session without a log.
var ErrNoSession = errors.New("no such session")

// Fresh returns the entry of a session, up to date with its log: it reads from the log what the index lacks. It
// writes nothing. The error wraps [ErrNoSession] if there is no log, and [Options.Damaged] if the log is damaged.
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
		base = nil // a damaged entry is not a fold of its log
	}
	if base != nil && base.Stream == stream {
		return base, nil
	}
	if base != nil && base.Stream < stream {
		e, err := ix.fold(ctx, base.clone(), session, stream)
		if err == nil || ix.o.Damaged == nil || !errors.Is(err, ix.o.Damaged) {
			return e, err
		}
		// The entry may belong to a deleted session whose id is used again.
	}
	return ix.fold(ctx, new(Entry), session, stream)
}

// fold folds the events of a log after an entry, up to a message of the stream, into the entry.
func (ix *Index) fold(ctx context.Context, e *Entry, session string, upTo uint64) (*Entry, error) {
	ctx, end := ix.o.Loads.Stream(ctx)
	defer end()
	for ev, err := range ix.o.Logs.Between(ctx, session, e.Summary.Seq, e.Stream, upTo) {
		if err != nil {
			return nil, err
		}
		if !e.Apply(ev) {
			return nil, fmt.Errorf("index: session %s: event %d follows event %d", session, ev.Seq, e.Summary.Seq)
		}
	}
	e.Stream, e.revision = upTo, 0
	return e, nil
}

// repair writes the entry of a session up to date with its log, which had a message at a sequence of the stream. A
// damaged log gets an entry that says so; without a log the entry is deleted.
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
		return e, nil // already stored
	}
	return e, ix.write(ctx, e)
}

// damaged returns the entry of a session whose log cannot be folded: what is known of it, and the reason.
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

// drop deletes the entry of a session without a log, if it has one.
func (ix *Index) drop(ctx context.Context, session string) error {
	e := ix.Get(session)
	if e == nil {
		return nil
	}
	kv, err := ix.js.KeyValue(ctx, schemas.BucketSessions)
	if err == nil {
		err = kv.Delete(ctx, keyPrefix+session, jetstream.LastRevision(e.revision))
	}
	if err != nil && !natsio.Outdated(err) {
		return fmt.Errorf("index: delete the entry of session %s, which has no log: %w", session, err)
	}
	return nil
}
