package eventstore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/schemas"
)

// A message on a log's subject that was not written by a log is foreign: a NATS server puts one there when somebody
// names the subject as the reply of a request. It is no part of the log and does no harm: readers skip it,
// [Store.Verify] reports it, and the next commit is fenced behind it.

// foreign reports whether the record is no message of the session's log.
func (r record) foreign(session string) bool { return !schemas.IsLog(session, r.header, r.payload) }

// A fence is a message on a log's subject by which whoever deletes the session shuts its log: it was stored where the
// deleter knew the log to end, and a writer that finds it has lost the session. It is no part of the log. Anybody who
// can have a message stored there could write one, so it counts only where [Options.Deleting] knows of the deletion.

// fence returns the id of the deletion whose fence the record is, "" if it is none.
func (r record) fence() string { return first(r.header, schemas.HeaderDeletion) }

// ErrDeleting is wrapped by the error of opening a log whose session is being deleted. When that is done the log opens
// empty.
var ErrDeleting = errors.New("session is being deleted")

// fenced returns an error if the newest message on the subject is the fence of a deletion.
func (l *Log) fenced(ctx context.Context, newest record) error {
	if l.o.Deleting == nil || newest.fence() == "" {
		return nil
	}
	deleting, err := l.o.Deleting(ctx, l.session, newest.fence())
	if err == nil && deleting {
		err = ErrDeleting
	}
	return err
}

// Wherever is the tail of a [Store.Fence] that is stored wherever the log ends.
const Wherever = math.MaxUint64

// Fence shuts the log of a session for the deletion with this id, if the newest message on its subject is at the
// sequence tail of the stream; a message that is there already with the same id is as good. It returns the place of the
// fence. The error wraps [schemas.ErrConflict] where something else has been stored.
func (s *Store) Fence(ctx context.Context, session, id string, tail uint64) (stream uint64, err error) {
	m := &nats.Msg{Subject: s.o.Subjects.Event(session), Header: nats.Header{schemas.HeaderDeletion: {id}}}
	var expected []jetstream.PublishOpt
	if tail != Wherever {
		expected = append(expected, jetstream.WithExpectLastSequencePerSubject(tail))
	}
	err = s.retry(ctx, func(ctx context.Context) error {
		ack, err := s.js.PublishMsg(ctx, m, expected...)
		if err == nil {
			stream = ack.Sequence
			return nil
		}
		rec, found, readErr := s.leaderGet(ctx, getRequest{LastFor: m.Subject})
		switch {
		case readErr != nil:
			return readErr
		case found && rec.fence() == id:
			stream = rec.stream
			return nil
		case refused(err):
			return &schemas.ConflictError{Session: session, Cause: err}
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("eventstore: fence session %s behind %d of the stream: %w", session, tail, err)
	}
	return stream, nil
}

// Fenced returns the place of the fence of the deletion with this id, 0 where the newest message on the session's
// subject is something else.
func (s *Store) Fenced(ctx context.Context, session, id string) (stream uint64, err error) {
	rec, _, err := s.end(ctx, session, asLed)
	if err != nil || id == "" || rec.fence() != id {
		return 0, err
	}
	return rec.stream, nil
}

// members yields the records that are the session's log's.
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

// The newest messages are looked at first, in ever greater steps, when the end of a log is looked for behind foreign
// messages.
const (
	firstWindow = 1 << 10 // sequences of the stream
	windowShift = 5
)

// lastMember returns the newest message of a session's log up to a message of its subject.
func lastMember(ctx context.Context, k keeper, session string, upTo uint64) (last record, found bool, err error) {
	for window := uint64(firstWindow); !found; window <<= windowShift {
		after := upTo - min(upTo, window)
		for rec, err := range members(session, k.between(ctx, session, after, upTo)) {
			if err != nil {
				return record{}, false, err
			}
			last, found = rec, true
		}
		if after == 0 {
			break
		}
	}
	return last, found, nil
}

// endOf returns the newest message of a session's log, and the newest message on its subject, which may be foreign.
func endOf(ctx context.Context, k keeper, session string) (rec, newest record, found bool, err error) {
	rec, found, err = k.end(ctx, session, asStored)
	if err != nil || !found {
		return rec, record{}, false, err
	}
	newest = rec
	if rec.foreign(session) {
		rec, found, err = lastMember(ctx, k, session, newest.stream)
	}
	return rec, newest, found, err
}

// pass has the log go on behind a foreign message: the next commit expects it to be the newest on the subject. It
// returns false if the log has failed meanwhile. c is the commit under way.
func (l *Log) pass(c *commit, rec record) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return false
	}
	l.passLocked(rec)
	c.expect(l.tail)
	return true
}

func (l *Log) passLocked(rec record) {
	l.tail = rec.stream
	l.o.Logger.Warn("message in a log that is none of it, passed over", "session", l.session, "stream", rec.stream)
	if l.o.OnForeign != nil {
		l.o.OnForeign(l.session)
	}
}

func (l *Log) tailNow() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tail
}

// chain checks, of the records of a log as they are read, what [Store.Verify] checks of each message: that it begins
// with the event that is next, carries the hash of the message before, and was appended on the expectation of the
// newest on its subject.
type chain struct {
	session string
	seq     uint64 // of the last event
	stream  uint64 // of the message before, foreign or not
	hash    string // of the log's message before
	known   bool   // stream and hash are
}

// records yields the members of the chain. The first that does not fit is an error.
func (c chain) records(raw recordSeq) iter.Seq2[record, error] {
	return func(yield func(record, error) bool) {
		for rec, err := range raw {
			if err == nil && rec.foreign(c.session) {
				c.stream = rec.stream
				continue
			}
			if err == nil {
				err = c.add(rec)
			}
			if !yield(rec, err) || err != nil {
				return
			}
		}
	}
}

func (c *chain) add(rec record) error {
	if c.known {
		if fault := checkPlace(rec, c.session, c.seq+1, c.stream, c.hash); fault != nil {
			return fmt.Errorf("%w: %w", ErrDamaged, fault)
		}
	}
	_, last, err := rec.span(c.session)
	c.seq, c.stream, c.hash, c.known = last, rec.stream, rec.hash(), true
	return err
}
