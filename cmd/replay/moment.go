package main

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// moment is a point in a session's log: an event's sequence or a time. The zero value is its end.
type moment struct {
	seq  uint64
	time time.Time
}

func parseMoment(s string) (moment, error) {
	if s == "" {
		return moment{}, nil
	}
	if seq, err := strconv.ParseUint(s, 10, 64); err == nil && seq > 0 {
		return moment{seq: seq}, nil
	}
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return moment{time: t}, nil
	}
	return moment{}, fmt.Errorf("--at: %q is neither a sequence from 1 nor a time as 2026-01-02T15:04:05Z", s)
}

// events yields a session's events up to a moment, which must not be outside its log. An error is the last thing
// yielded.
func (l *logs) events(ctx context.Context, session string, at moment) iter.Seq2[schemas.Event, error] {
	return func(yield func(schemas.Event, error) bool) {
		if err := l.readUpTo(ctx, session, at, func(e schemas.Event) bool { return yield(e, nil) }); err != nil {
			yield(schemas.Event{}, err)
		}
	}
}

func (l *logs) readUpTo(ctx context.Context, session string, at moment, yield func(schemas.Event) bool) error {
	if !at.time.IsZero() {
		seq, err := l.store.At(ctx, session, at.time)
		if err != nil {
			return err
		}
		if seq == 0 {
			return fmt.Errorf("session %s has no event at or before %s", session, at.time.Format(time.RFC3339Nano))
		}
		at.seq = seq
	}
	var last uint64
	for e, err := range l.store.Read(ctx, session, 1) {
		if err != nil {
			return err
		}
		if last = e.Seq; !yield(e) || last == at.seq {
			return nil
		}
	}
	switch {
	case last == 0:
		return noLog(session)
	case last < at.seq:
		return fmt.Errorf("session %s has no event %d: it ends at %d", session, at.seq, last)
	}
	return nil
}

func noLog(session string) error { return fmt.Errorf("session %s has no log", session) }
