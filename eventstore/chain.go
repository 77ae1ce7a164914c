package eventstore

import (
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/schemas"
)

// chain is the place behind the records of a log that were read. It checks of the next record that it begins with the
// next event, carries the hash of the commit before, and was appended behind the newest message on the subject.
type chain struct {
	session string
	seq     uint64 // of the last event
	tail    uint64 // stream sequence of the message before, foreign or not
	hash    string // of the log's record before
	partial bool   // tail and hash are unknown, because reading began in the middle of the log
}

// records yields the records of the log. The first that does not fit the chain is an error that wraps [ErrDamaged].
func (c chain) records(raw recordSeq) recordSeq {
	return func(yield func(record, error) bool) {
		for rec, err := range raw {
			if err == nil && rec.foreign(c.session) {
				c.tail = rec.stream
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
	if fault := c.check(rec); fault != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, fault)
	}
	_, last, err := rec.span(c.session)
	c.seq, c.tail, c.hash, c.partial = last, rec.stream, rec.hash(), false
	return err
}

// check returns what is wrong with the next record of the log; nil if nothing is. Foreign messages before the first
// record may have been deleted since (decision 135).
func (c *chain) check(rec record) *Fault {
	if c.partial {
		return nil
	}
	seq, tail := c.seq+1, c.tail
	fault := func(what, want, got string) *Fault { return &Fault{seq, rec.stream, what, want, got} }
	type header struct{ what, key, want string }
	headers := []header{
		{"id", schemas.HeaderID, schemas.Event{Session: c.session, Seq: seq}.ID()},
		{"sequence", schemas.HeaderSequence, fmt.Sprintf("%020d", seq)},
		{"subject", schemas.HeaderSubject, c.session},
		{"version of CloudEvents", schemas.HeaderSpecVersion, schemas.SpecVersion},
	}
	previous := schemas.HeaderPrevHash
	if rec.isCommit() {
		headers = []header{{"content type", schemas.HeaderContentType, schemas.ContentBatch}}
		previous = schemas.HeaderPrevious
		if from, _, err := rec.span(c.session); err != nil || from != seq {
			return fault("commit", fmt.Sprintf("one from event %d on", seq), quoted(first(rec.header, schemas.HeaderCommit)))
		}
	}
	if expected, ok := rec.prev(); ok && c.hash == "" && expected > tail && expected < rec.stream {
		tail = expected
	}
	headers = append(headers,
		header{"expected last message at the append", jetstream.ExpectedLastSubjSeqHeader, fmt.Sprint(tail)},
		header{"previous hash", previous, c.hash})
	for _, h := range headers {
		if got := first(rec.header, h.key); got != h.want {
			return fault(h.what, quoted(h.want), quoted(got))
		}
	}
	return nil
}

func quoted(s string) string {
	if s == "" {
		return "none"
	}
	return s
}
