package eventstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/schemas/turns"
)

// record is a message on the subject of a log as it is stored: a commit, one event in the format of the first version,
// or a foreign message.
type record struct {
	stream  uint64 // sequence in the stream
	header  map[string][]string
	payload []byte
}

// recordOf parses a message that a direct get returned.
func recordOf(m *nats.Msg) (record, error) {
	seq, err := strconv.ParseUint(natsio.Added(m.Header, jetstream.SequenceHeader), 10, 64)
	if err != nil {
		return record{}, fmt.Errorf("message on %s without a stream sequence: %w", m.Subject, err)
	}
	return record{stream: seq, header: m.Header, payload: m.Data}, nil
}

func (r record) hash() string { return schemas.Hash(r.header, r.payload) }

func (r record) damaged(err error) error {
	return fmt.Errorf("%w: message %d of the stream: %w", ErrDamaged, r.stream, err)
}

// span returns the sequences of the record's first and last event.
func (r record) span(session string) (first, last uint64, err error) {
	if first, last, err = schemas.LogSpan(session, r.header); err != nil {
		err = r.damaged(err)
	}
	return first, last, err
}

// end returns the position of the record's last event.
func (r record) end(session string) (position, error) {
	_, last, err := r.span(session)
	return position{last, r.stream}, err
}

// split returns the record's events. Their data is not decoded.
func (r record) split(session string) ([]schemas.StoredEvent, error) {
	events, err := schemas.SplitLog(session, r.header, r.payload)
	if err != nil {
		err = r.damaged(err)
	}
	return events, err
}

// isCommit reports whether the record is a commit, and not an event of the first version.
func (r record) isCommit() bool { return r.header[schemas.HeaderCommit] != nil }

// prev returns the stream sequence that the append of the record expected of the newest message on the subject.
func (r record) prev() (uint64, bool) {
	v, err := strconv.ParseUint(first(r.header, jetstream.ExpectedLastSubjSeqHeader), 10, 64)
	return v, err == nil
}

func first(header map[string][]string, key string) string {
	if v := header[key]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// foreign reports whether no log of the session wrote the record. A NATS server, for example, stores its answer on a
// log's subject if a client names that as the reply of a request. A foreign message does not belong to the log and does
// no harm: readers skip it, [Store.Verify] reports it, and the next commit is fenced behind it.
func (r record) foreign(session string) bool { return !schemas.IsLog(session, r.header, r.payload) }

// fence returns the id of the deletion whose fence the record is; "" if it is none.
func (r record) fence() string { return first(r.header, schemas.HeaderDeletion) }

type (
	recordSeq = iter.Seq2[record, error]
	yieldFunc func(schemas.Event, error) bool
)

// unpack yields the record's events that have at least the sequence from. The record must follow event last. It returns
// the sequence of the last event that it passed, and errStop if yield returned false.
func (r record) unpack(ctx context.Context, session string, last, from uint64, b backend, yield yieldFunc,
) (uint64, error) {
	first, end, err := r.span(session)
	if err == nil && first != last+1 {
		err = fmt.Errorf("%w: event %d follows event %d", ErrDamaged, first, last)
	}
	if err != nil {
		return last, err
	}
	if end < from {
		return end, nil // not worth parsing
	}
	events, err := r.split(session)
	if err != nil {
		return last, err
	}
	for _, s := range events {
		if last = s.Seq; last < from {
			continue
		}
		e, err := r.decode(ctx, s, b)
		if err != nil {
			return last - 1, err
		}
		if !yield(e, nil) {
			return last, errStop
		}
	}
	return last, nil
}

// decode decodes one of the record's events. It fetches the payload if that is in the object store.
func (r record) decode(ctx context.Context, s schemas.StoredEvent, b backend) (schemas.Event, error) {
	if s.Ref != "" {
		raw, err := b.payload(ctx, s.Ref)
		if err != nil {
			return schemas.Event{}, err
		}
		s.Raw, s.Ref = raw, ""
	} else if err := turns.Pass(ctx, len(s.Raw)); err != nil {
		return schemas.Event{}, err
	}
	e, err := s.Decode(nil)
	if err != nil {
		err = r.damaged(err)
	}
	return e, err
}

// events yields the events of records that have at least the sequence from. The first record must follow event last. An
// error is the last thing yielded.
func events(ctx context.Context, b backend, session string, records recordSeq, last, from uint64,
) iter.Seq2[schemas.Event, error] {
	return func(yield func(schemas.Event, error) bool) {
		for rec, err := range records {
			if err == nil {
				last, err = rec.unpack(ctx, session, last, from, b, yield)
			}
			if errors.Is(err, errStop) {
				return
			}
			if err != nil {
				yield(schemas.Event{}, fmt.Errorf("eventstore: read session %s after seq %d: %w", session, last, err))
				return
			}
		}
	}
}

// members yields the records that belong to the session's log.
func members(session string, records recordSeq) recordSeq {
	return func(yield func(record, error) bool) {
		for rec, err := range records {
			if err == nil && rec.foreign(session) {
				continue
			}
			if !yield(rec, err) {
				return
			}
		}
	}
}
