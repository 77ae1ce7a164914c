package eventstore

import (
	"context"
	"fmt"
	"iter"

	"github.com/loopbus/loopbus/schemas"
)

// A message on a log's subject that was not written by a log is foreign: a NATS server puts one there when somebody
// names the subject as the reply of a request. It is no part of the log and does no harm: readers skip it,
// [Store.Verify] reports it, and the next commit is fenced behind it.

// foreign reports whether the record is no message of the session's log.
func (r record) foreign(session string) bool { return !schemas.IsLog(session, r.header, r.payload) }

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

// endOf returns the newest message of a session's log, and where the newest message on its subject is, which may be
// foreign.
func endOf(ctx context.Context, k keeper, session string) (rec record, tail uint64, found bool, err error) {
	rec, found, err = k.end(ctx, session)
	if err != nil || !found {
		return rec, 0, false, err
	}
	tail = rec.stream
	if rec.foreign(session) {
		rec, found, err = lastMember(ctx, k, session, tail)
	}
	return rec, tail, found, err
}

// pass has the log go on behind a foreign message: the next commit expects it to be the newest on the subject. It
// returns false if the log has failed meanwhile. c is the commit under way, nil for none.
func (l *Log) pass(c *commit, rec record) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return false
	}
	l.passLocked(rec)
	if c != nil {
		c.expect(l.tail)
	}
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
