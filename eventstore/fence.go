package eventstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// A fence is a message on a log's subject with which a deletion closes the log. It is stored only if the deleter knows
// where the log ends. A writer that finds a fence has lost the session. A fence is foreign: it does not belong to the
// log. Any client that can have a message stored there could forge one, so a fence counts only if [Options.InProgress]
// knows its deletion.

// ErrDeleting is wrapped by the error of opening a log whose session is being deleted. After the deletion the log opens
// empty.
var ErrDeleting = errors.New("session is being deleted")

// checkFences returns an error if one of the fences behind the log is that of a deletion. It checks the newest first.
func (l *Log) checkFences(ctx context.Context, fences []record) error {
	if l.o.InProgress == nil {
		return nil
	}
	for _, rec := range slices.Backward(fences) {
		deleting, err := l.o.InProgress(ctx, l.session, rec.fence())
		if err == nil && deleting {
			err = ErrDeleting
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ErrRestoring is wrapped by the error of opening a log that is being restored, or whose restore was interrupted. What
// is stored of it is not how the session ended: whoever went on from there would repeat what the rest of the log says.
var ErrRestoring = errors.New("session is being restored")

// checkRestored returns an error if the end of the log was stored by a restore that is in progress, or if the log has
// no message and one is in progress.
func (l *Log) checkRestored(ctx context.Context, end ending) error {
	id := first(end.last.header, schemas.HeaderRestore)
	if end.found && id == "" || l.o.InProgress == nil {
		return nil
	}
	restoring, err := l.o.InProgress(ctx, l.session, id)
	if err == nil && restoring {
		err = ErrRestoring
	}
	return err
}

// Wherever is the tail of a [Store.Fence] that is stored wherever the log ends.
const Wherever = math.MaxUint64

// Fence closes the log of a session for the deletion with this id, and returns the stream sequence of the fence. It
// stores the fence if the newest message on the subject has the stream sequence tail. If the newest message is already
// a fence with this id, Fence returns that. If it is any other message, the error wraps [schemas.ErrConflict].
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
		rec, found, readErr := s.fromLeader(ctx, getRequest{LastFor: m.Subject})
		switch {
		case readErr != nil:
			return readErr
		case found && rec.fence() == id:
			stream = rec.stream
			return nil
		case natsio.Outdated(err):
			return &schemas.ConflictError{Session: session, Cause: err}
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("eventstore: fence session %s behind %d of the stream: %w", session, tail, err)
	}
	return stream, nil
}

// Fenced returns the stream sequence of the fence that the deletion with this id has stored behind the session's log;
// 0 if there is none. Other foreign messages may be stored behind the fence.
func (s *Store) Fenced(ctx context.Context, session, id string) (stream uint64, err error) {
	end, err := endOf(ctx, s, session, leader)
	if err != nil || id == "" {
		return 0, err
	}
	for _, rec := range end.fences {
		if rec.fence() == id {
			return rec.stream, nil
		}
	}
	return 0, nil
}
