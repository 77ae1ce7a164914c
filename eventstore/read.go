package eventstore

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// Read yields the events from sequence from (1 is the first) up to the head at which the log was opened, and what this
// log has stored since, in order. An error is the last thing yielded. After [Log.Snapshot] reading begins at the
// snapshot's place in the stream, so that a tail costs what the tail is long. A message that [Store.Verify] would not
// have where it is, by its place, its hash or the expectation it was appended on, is an error wrapping [ErrDamaged].
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
		c := chain{session: l.session, seq: start.seq, known: start.seq == 0}
		records := c.records(l.keep.between(ctx, l.session, start.stream, head.stream))
		events(ctx, l.session, records, start.seq, from, l.keep.fetchBlob)(yield)
	}
}

// Read yields the events of a session from sequence from (1 is the first) up to its head at the moment of the call, in
// order. An error is the last thing yielded.
func (s *Store) Read(ctx context.Context, session string, from uint64) iter.Seq2[schemas.Event, error] {
	return read(ctx, s, session, from)
}

func read(ctx context.Context, k keeper, session string, from uint64) iter.Seq2[schemas.Event, error] {
	return events(ctx, session, whole(ctx, k, session), 0, from, k.fetchBlob)
}

// At returns the sequence of the last event of a session whose time is at or before at; 0 if there is none. It reads
// the whole log, but decodes no event's data.
func (s *Store) At(ctx context.Context, session string, at time.Time) (seq uint64, err error) {
	return lastAt(ctx, s, session, at)
}

func lastAt(ctx context.Context, k keeper, session string, at time.Time) (seq uint64, err error) {
	for rec, err := range whole(ctx, k, session) {
		if err != nil {
			return 0, fmt.Errorf("eventstore: session %s at %s: %w", session, at.Format(time.RFC3339Nano), err)
		}
		events, _ := rec.split(session)
		for _, e := range events {
			if !e.Time.After(at) {
				seq = e.Seq
			}
		}
	}
	return seq, nil
}

// whole yields the messages of a session's log up to its end at the moment of the call, as a reader sees it.
func whole(ctx context.Context, k keeper, session string) recordSeq {
	return members(session, all(ctx, k, session, asSeen))
}

// all yields what is on the subject of a session's log up to its end at the moment of the call.
func all(ctx context.Context, k keeper, session string, as freshness) recordSeq {
	return func(yield func(record, error) bool) {
		err := schemas.CheckSession(session)
		var last record
		if err == nil {
			last, _, err = k.end(ctx, session, as)
		}
		if err != nil {
			yield(record{}, err)
			return
		}
		k.between(ctx, session, 0, last.stream)(yield)
	}
}

// Message is a message on the subject of a session's log as it is stored, with the headers that the server adds when it
// is read. Foreign ones are no part of the log.
type Message struct {
	Stream  uint64 // sequence in the stream
	Header  map[string][]string
	Payload []byte
	Foreign bool
}

// Messages yields what is on the subject of a session's log up to its newest message at the moment of the call. An
// error is the last thing yielded.
func (s *Store) Messages(ctx context.Context, session string) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		for rec, err := range all(ctx, s, session, asStored) {
			if err != nil {
				err = fmt.Errorf("eventstore: messages of session %s: %w", session, err)
			}
			if !yield(Message{rec.stream, rec.header, rec.payload, rec.foreign(session)}, err) || err != nil {
				return
			}
		}
	}
}

// Head returns where a session's log ends: the sequence of its last event, and the sequence in the stream of the
// message that has it. Both are 0 for a session without a log. It is not behind what was acknowledged before.
func (s *Store) Head(ctx context.Context, session string) (seq, stream uint64, err error) {
	if err := schemas.CheckSession(session); err != nil {
		return 0, 0, fmt.Errorf("eventstore: %w", err)
	}
	var at position
	rec, _, found, err := endOf(ctx, s, session)
	if err == nil && found {
		at, err = rec.end(session)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("eventstore: head of session %s: %w", session, err)
	}
	return at.seq, at.stream, nil
}

// Between yields the events of a session, in order, that are stored behind the message of the stream sequence after,
// whose last event has the sequence seq, up to the message of the stream sequence upTo. So a reader that knows where it
// was reads the tail only. Both are zero for the beginning; upTo is that of [Store.Head]. An error is the last thing
// yielded; it wraps [ErrDamaged] if seq and after are not of this log.
func (s *Store) Between(ctx context.Context, session string, seq, after, upTo uint64) iter.Seq2[schemas.Event, error] {
	records := members(session, s.between(ctx, session, after, upTo))
	return events(ctx, session, records, seq, seq+1, s.fetchBlob)
}

// Stored returns the sequence of the last event that is known to be stored, and the sequence in the stream of the
// message that has it. Both are 0 for a log without events.
func (l *Log) Stored() (seq, stream uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.head.seq, l.head.stream
}

// Seek returns the place behind which the event with a sequence is: what [Store.Between] takes for seq and after, where
// seq is less than the one asked for. It takes a number of gets that grows with the logarithm of the stream.
func (s *Store) Seek(ctx context.Context, session string, event uint64) (seq, after uint64, err error) {
	head, upTo, err := s.Head(ctx, session)
	if err != nil || event > head {
		return head, upTo, err
	}
	for upTo-after > 1 {
		middle := after + (upTo-after)/2
		rec, found, err := s.memberFrom(ctx, session, middle, upTo)
		if err != nil {
			return 0, 0, fmt.Errorf("eventstore: seek event %d of session %s: %w", event, session, err)
		}
		if !found {
			upTo = middle
			continue
		}
		first, last, err := rec.span(session)
		switch {
		case err != nil:
			return 0, 0, fmt.Errorf("eventstore: seek event %d of session %s: %w", event, session, err)
		case last < event:
			seq, after = last, rec.stream
		case first <= event:
			return first - 1, rec.stream - 1, nil
		default:
			upTo = rec.stream
		}
	}
	return seq, after, nil
}

// memberFrom returns the first message of a session's log from one sequence of the stream on and before another.
func (s *Store) memberFrom(ctx context.Context, session string, from, before uint64) (rec record, found bool,
	err error) {
	subject := s.o.Subjects.Event(session)
	for from < before {
		rec, found, err = s.until(ctx, s.current, getRequest{Seq: from, NextFor: subject})
		if err != nil || !found || rec.stream >= before {
			return record{}, false, err
		}
		if !rec.foreign(session) {
			return rec, true, nil
		}
		from = rec.stream + 1
	}
	return record{}, false, nil
}
