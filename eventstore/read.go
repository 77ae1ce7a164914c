package eventstore

import (
	"context"
	"fmt"
	"iter"

	"github.com/loopbus/loopbus/schemas"
)

// Read yields the events from sequence from (1 is the first) up to the head at which the log was opened, and what this
// log has stored since, in order. An error is the last thing yielded. After [Log.Snapshot] reading begins at the
// snapshot's place in the stream, so that a tail costs what the tail is long.
func (l *Log) Read(ctx context.Context, from uint64) iter.Seq2[schemas.Event, error] {
	return func(yield func(schemas.Event, error) bool) {
		l.mu.Lock()
		var start position
		for _, p := range []position{l.known, l.opened} {
			if p.seq < from && p.seq > start.seq {
				start = p
			}
		}
		head := l.head
		l.mu.Unlock()
		l.s.events(ctx, l.session, from, start, head.stream)(yield)
	}
}

// Read yields the events of a session from sequence from (1 is the first) up to its head at the moment of the call, in
// order. An error is the last thing yielded.
func (s *Store) Read(ctx context.Context, session string, from uint64) iter.Seq2[schemas.Event, error] {
	return func(yield func(schemas.Event, error) bool) {
		head, err := s.head(ctx, session)
		if err != nil {
			yield(schemas.Event{}, err)
			return
		}
		s.events(ctx, session, from, position{}, head)(yield)
	}
}

// head returns the stream sequence of a session's last message, 0 if there is none.
func (s *Store) head(ctx context.Context, session string) (uint64, error) {
	if err := schemas.CheckSession(session); err != nil {
		return 0, fmt.Errorf("eventstore: %w", err)
	}
	rec, _, err := s.last(ctx, s.o.Subjects.Event(session))
	if err != nil {
		return 0, fmt.Errorf("eventstore: head of session %s: %w", session, err)
	}
	return rec.stream, nil
}

// events yields the events after a position that have at least sequence from, up to a place in the stream.
func (s *Store) events(ctx context.Context, session string, from uint64, after position, upTo uint64) iter.Seq2[schemas.Event, error] {
	return func(yield func(schemas.Event, error) bool) {
		last := after.seq
		for rec, err := range s.records(ctx, s.o.Subjects.Event(session), after.stream, upTo) {
			var e schemas.Event
			if err == nil {
				last, err = follows(session, rec, last)
			}
			if err == nil && last < from {
				continue // not worth decoding
			}
			if err == nil {
				e, err = rec.decode(ctx, s.fetchBlob)
			}
			if err != nil {
				yield(schemas.Event{}, fmt.Errorf("eventstore: read session %s after seq %d: %w", session, last, err))
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// follows returns the sequence of a record, which must be the one after last.
func follows(session string, rec record, last uint64) (uint64, error) {
	seq, err := rec.seqOf(session)
	if err != nil {
		return last, err
	}
	if seq != last+1 {
		return last, fmt.Errorf("%w: event %d follows event %d", ErrDamaged, seq, last)
	}
	return seq, nil
}
