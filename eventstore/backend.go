package eventstore

import (
	"context"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// backend is what a [Log], reading, verifying and snapshots need of the place where logs are stored: a [Store] or a
// [Memory].
type backend interface {
	// last returns the newest message on the subject of a session.
	last(ctx context.Context, session string, c consistency) (rec record, found bool, err error)
	// at returns the message of a session that has this sequence in the stream.
	at(ctx context.Context, session string, stream uint64) (rec record, found bool, err error)
	// between yields the messages of a session that have a stream sequence above after and up to upTo, which must be
	// that of a message of the session, or 0 for none. An error is the last thing yielded.
	between(ctx context.Context, session string, after, upTo uint64) recordSeq
	// publish begins to store a commit of l, whose payloads are stored; l.mu is held.
	publish(l *Log, c *commit)

	// payload returns the data behind a data reference, checked against its digest.
	payload(ctx context.Context, ref string) ([]byte, error)
	// snapshotValue returns the value under a key, nil if there is none.
	snapshotValue(ctx context.Context, key string) ([]byte, error)
	snapshotObject(ctx context.Context, name string) ([]byte, error)
	// saveSnapshot saves a snapshot in place of the one before, unless the session was deleted in the meantime.
	saveSnapshot(ctx context.Context, session string, h snapshotHeader, state []byte) error
}

// consistency is how recent an answer about the end of a log has to be.
type consistency int

const (
	anyReplica   consistency = iota // the answer of any replica, which may be behind: enough for readers
	acknowledged                    // not behind any acknowledgement
	leader                          // the answer of the stream's leader
)

// position is the end of a commit: the sequence of its last event, and its own sequence in the stream. Zero is before
// the first.
type position struct{ seq, stream uint64 }

// ending is where a session's log ends.
type ending struct {
	last   record   // newest message of the log
	found  bool     // whether last is set
	newest record   // newest message on the subject, which may be foreign
	fences []record // behind the log
}

// endOf finds the end of a session's log.
func endOf(ctx context.Context, b backend, session string, c consistency) (ending, error) {
	newest, found, err := b.last(ctx, session, c)
	if err != nil || !found {
		return ending{}, err
	}
	return endBefore(ctx, b, session, newest)
}

// The search for the end of a log behind foreign messages reads the newest messages first, in growing steps: a log
// normally ends close before them.
const (
	firstWindow = 1 << 10 // sequences of the stream
	windowShift = 5
)

// endBefore finds the end of a session's log, of whose subject newest is the newest message to consider.
func endBefore(ctx context.Context, b backend, session string, newest record) (ending, error) {
	e := ending{newest: newest}
	if !newest.foreign(session) {
		e.last, e.found = newest, true
		return e, nil
	}
	for window := uint64(firstWindow); !e.found; window <<= windowShift {
		after := newest.stream - min(newest.stream, window)
		e.fences = nil
		for rec, err := range b.between(ctx, session, after, newest.stream) {
			switch {
			case err != nil:
				return ending{newest: newest}, err
			case !rec.foreign(session):
				e.last, e.found, e.fences = rec, true, nil
			case rec.fence() != "":
				e.fences = append(e.fences, rec)
			}
		}
		if after == 0 {
			break
		}
	}
	return e, nil
}

// SessionInfo is what a list of sessions shows of one.
type SessionInfo struct {
	Session string
	Events  uint64            // in the log, as its last message states; 0 if that cannot be read
	Last    schemas.EventType // type of the last event
	Time    time.Time         // of the last event
}

func infoOf(session string, last record) SessionInfo {
	info := SessionInfo{Session: session}
	if events, err := last.split(session); err == nil {
		e := events[len(events)-1]
		info.Events, info.Last, info.Time = e.Seq, schemas.EventType(e.Name), e.Time
	}
	return info
}
