package eventstore

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// Read yields the events from the sequence from (1 is the first) up to the head at which the log was opened, and those
// that this log has stored since, in order. An error is the last thing yielded. After [Log.Snapshot] Read begins at the
// snapshot's place in the stream, so that its cost is that of the tail. A message that [Store.Verify] would report for
// its place, its hash or the expected sequence of its append is an error wrapping [ErrDamaged].
func (l *Log) Read(ctx context.Context, from uint64) iter.Seq2[schemas.Event, error] {
	return func(yield func(schemas.Event, error) bool) {
		l.mu.Lock()
		var start position
		for _, p := range []position{l.loaded, l.opened} {
			if p.seq < from && p.seq > start.seq {
				start = p
			}
		}
		head := l.head
		l.mu.Unlock()
		c := chain{session: l.session, seq: start.seq, partial: start.seq > 0}
		records := c.records(l.backend.between(ctx, l.session, start.stream, head.stream))
		events(ctx, l.backend, l.session, records, start.seq, from)(yield)
	}
}

// Read yields the events of a session from the sequence from (1 is the first) up to its head at the moment of the call,
// in order. An error is the last thing yielded.
func (s *Store) Read(ctx context.Context, session string, from uint64) iter.Seq2[schemas.Event, error] {
	return read(ctx, s, session, from)
}

func read(ctx context.Context, b backend, session string, from uint64) iter.Seq2[schemas.Event, error] {
	return events(ctx, b, session, members(session, all(ctx, b, session, anyReplica)), 0, from)
}

// At returns the sequence of the last event of a session whose time is not after at; 0 if there is none. It reads the
// whole log, but decodes no event's data.
func (s *Store) At(ctx context.Context, session string, at time.Time) (seq uint64, err error) {
	return lastAt(ctx, s, session, at)
}

func lastAt(ctx context.Context, b backend, session string, at time.Time) (seq uint64, err error) {
	for rec, err := range members(session, all(ctx, b, session, anyReplica)) {
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

// all yields the messages on the subject of a session's log up to the newest at the moment of the call.
func all(ctx context.Context, b backend, session string, c consistency) recordSeq {
	return func(yield func(record, error) bool) {
		err := schemas.CheckSession(session)
		var newest record
		if err == nil {
			newest, _, err = b.last(ctx, session, c)
		}
		if err != nil {
			yield(record{}, err)
			return
		}
		b.between(ctx, session, 0, newest.stream)(yield)
	}
}

// Message is a message on the subject of a session's log as it is stored, with the headers that the server adds when it
// is read. Foreign messages do not belong to the log.
type Message struct {
	Stream  uint64 // sequence in the stream
	Header  map[string][]string
	Payload []byte
	Foreign bool
}

// Messages yields all messages on the subject of a session's log, up to the newest at the moment of the call. An error
// is the last thing yielded.
func (s *Store) Messages(ctx context.Context, session string) iter.Seq2[Message, error] {
	return s.messages(ctx, session, acknowledged)
}

// ReadMessages is like [Store.Messages], but ends as [Store.Read] does: a replica that answers may be behind.
func (s *Store) ReadMessages(ctx context.Context, session string) iter.Seq2[Message, error] {
	return s.messages(ctx, session, anyReplica)
}

func (s *Store) messages(ctx context.Context, session string, c consistency) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		for rec, err := range all(ctx, s, session, c) {
			if err != nil {
				err = fmt.Errorf("eventstore: messages of session %s: %w", session, err)
			}
			if !yield(Message{rec.stream, rec.header, rec.payload, rec.foreign(session)}, err) || err != nil {
				return
			}
		}
	}
}

// Head returns the end of a session's log: the sequence of its last event, and the stream sequence of the message that
// has it. Both are 0 for a session without a log. The answer is not behind any acknowledgement.
func (s *Store) Head(ctx context.Context, session string) (seq, stream uint64, err error) {
	if err := schemas.CheckSession(session); err != nil {
		return 0, 0, fmt.Errorf("eventstore: %w", err)
	}
	var at position
	end, err := endOf(ctx, s, session, acknowledged)
	if err == nil && end.found {
		at, err = end.last.end(session)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("eventstore: head of session %s: %w", session, err)
	}
	return at.seq, at.stream, nil
}

// Between yields the events of a session, in order, that are stored behind the message with the stream sequence after,
// up to the message with the stream sequence upTo. seq is the sequence of the last event of the message after. A reader
// that knows its place thus reads the tail only. seq and after are zero for the beginning; upTo is that of
// [Store.Head]. An error is the last thing yielded; it wraps [ErrDamaged] if seq and after are not a place of this log.
func (s *Store) Between(ctx context.Context, session string, seq, after, upTo uint64) iter.Seq2[schemas.Event, error] {
	records := members(session, s.between(ctx, session, after, upTo))
	return events(ctx, s, session, records, seq, seq+1)
}

// Seek returns a place in front of the event with this sequence, as the seq and after that [Store.Between] takes; seq
// is less than event. If event is behind the end of the log, Seek returns the end. The number of gets grows with the
// logarithm of the stream's length.
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

// memberFrom returns the first message of a session's log that has a stream sequence from from on and below before.
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
