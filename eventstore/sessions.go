package eventstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/schemas"
)

// SessionInfo is what a list of sessions shows of one.
type SessionInfo struct {
	Session string
	Events  uint64            // messages in the log
	LastSeq uint64            // sequence of the last event; differs from Events only in a damaged log
	Last    schemas.EventType // type of the last event
	Time    time.Time         // of the last event
}

// Sessions yields all sessions that have a log, by name. An error is the last thing yielded. What is appended meanwhile
// may be missing.
func (s *Store) Sessions(ctx context.Context) iter.Seq2[SessionInfo, error] {
	return func(yield func(SessionInfo, error) bool) {
		counts, err := s.counts(ctx)
		if err != nil {
			yield(SessionInfo{}, fmt.Errorf("eventstore: list sessions: %w", err))
			return
		}
		for subjects := range slices.Chunk(slices.Sorted(maps.Keys(counts)), batchEvents) {
			last, err := s.lastOf(ctx, subjects)
			if err != nil {
				yield(SessionInfo{}, fmt.Errorf("eventstore: list sessions: %w", err))
				return
			}
			for _, subject := range subjects {
				session, err := s.o.Subjects.ParseEvent(subject)
				if err != nil {
					continue // no session of ours: Open would refuse it
				}
				if !yield(infoOf(session, counts[subject], last[subject]), nil) {
					return
				}
			}
		}
	}
}

// counts returns the number of messages by subject.
func (s *Store) counts(ctx context.Context) (counts map[string]uint64, err error) {
	err = s.retry(ctx, func(ctx context.Context) error {
		stream, err := s.js.Stream(ctx, schemas.StreamEvents)
		if err != nil {
			return err
		}
		info, err := stream.Info(ctx, jetstream.WithSubjectFilter(s.o.Subjects.Event("*")))
		if err == nil {
			counts = info.State.Subjects
		}
		return err
	})
	return counts, err
}

func infoOf(session string, events uint64, last record) SessionInfo {
	info := SessionInfo{Session: session, Events: events, Time: last.time()}
	info.LastSeq, _ = last.seqOf(session)
	name, _ := schemas.ParseCloudEventType(first(last.header, schemas.HeaderType))
	info.Last = schemas.EventType(name)
	return info
}

// lastOf returns the last message on each of at most batchEvents subjects.
func (s *Store) lastOf(ctx context.Context, subjects []string) (last map[string]record, err error) {
	err = s.retry(ctx, func(ctx context.Context) error {
		last = make(map[string]record, len(subjects))
		return s.multiLast(ctx, subjects, last)
	})
	return last, err
}

func (s *Store) multiLast(ctx context.Context, subjects []string, last map[string]record) error {
	body, err := json.Marshal(getRequest{MultiLast: subjects})
	if err != nil {
		return err
	}
	ch := make(chan *nats.Msg, len(subjects)+1)
	inbox := s.nc.NewInbox()
	sub, err := s.nc.ChanSubscribe(inbox, ch)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := s.nc.PublishRequest(s.directSubject(), inbox, body); err != nil {
		return err
	}
	for {
		select {
		case m := <-ch:
			switch err := status(m); {
			case errors.Is(err, errEndOfBatch), errors.Is(err, errNotFound):
				return nil
			case err != nil:
				return err
			}
			rec, err := recordOf(m)
			if err != nil {
				return err
			}
			last[first(m.Header, jetstream.SubjectHeader)] = rec
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// At returns the sequence of the last event of a session whose time is at or before at; 0 if there is none. It reads the
// whole log, but only its headers.
func (s *Store) At(ctx context.Context, session string, at time.Time) (seq uint64, err error) {
	head, err := s.head(ctx, session)
	if err != nil {
		return 0, err
	}
	for rec, err := range s.records(ctx, s.o.Subjects.Event(session), 0, head) {
		if err != nil {
			return 0, fmt.Errorf("eventstore: session %s at %s: %w", session, at.Format(time.RFC3339Nano), err)
		}
		if n, err := rec.seqOf(session); err == nil && !rec.time().After(at) {
			seq = n
		}
	}
	return seq, nil
}
