package index

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// maxStrays limits the subjects without an entry that one audit checks: each takes several requests.
const maxStrays = 4096

// audit deletes the entries of sessions whose logs were deleted, and foreign messages on the subjects of logs.
func (ix *Index) audit(ctx context.Context) error {
	stream, err := ix.js.Stream(ctx, schemas.StreamEvents)
	if err != nil {
		return fmt.Errorf("index: sessions with a log: %w", err)
	}
	info, err := natsio.ConfirmedInfo(ctx, ix.js, schemas.StreamEvents,
		jetstream.WithSubjectFilter(ix.subjects.Event("*")))
	if err != nil {
		return fmt.Errorf("index: sessions with a log: %w", err)
	}
	for _, e := range ix.View().Entries {
		session := e.Summary.Session
		if _, has := info.State.Subjects[ix.subjects.Event(session)]; has {
			continue
		}
		if _, err := ix.repair(ctx, session, 0); err != nil {
			return err
		}
	}
	return ix.purgeStrays(ctx, stream, info)
}

// purgeStrays purges subjects of logs that contain only answers of servers to forged requests. A subject with one
// message of a log is left alone; so is one with wildcards: as the filter of a purge it would match all logs.
func (ix *Index) purgeStrays(ctx context.Context, stream jetstream.Stream, info *jetstream.StreamInfo) error {
	checked, purged := 0, 0
	for subject := range info.State.Subjects {
		session, err := ix.subjects.ParseEvent(subject)
		switch {
		case !natsio.Literal(subject):
			continue
		case err != nil:
			session = ""
		case ix.Get(session) != nil:
			continue
		}
		if checked++; checked > maxStrays { // the map's order is random, so later audits check the others
			break
		}
		before := info.TimeStamp.Add(-ix.o.Stray)
		ok, err := ix.purgeStray(ctx, stream, subject, session, before)
		if err != nil {
			return fmt.Errorf("index: foreign messages on %s: %w", subject, err)
		}
		if ok {
			purged++
		}
	}
	if purged > 0 {
		ix.o.Logger.Warn("deleted foreign messages from the stream of logs", "stream", schemas.StreamEvents,
			"subjects", purged)
	}
	return nil
}

// purgeStray purges a subject if it contains nothing of a log and nothing stored after a moment of the server's clock.
// session is "" if the subject cannot be that of a log. A log that starts concurrently survives: the purge affects
// only messages before it. At worst its writer is refused and opens the log again.
func (ix *Index) purgeStray(ctx context.Context, stream jetstream.Stream, subject, session string,
	before time.Time) (purged bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	newest, ok, err := natsio.Last(ctx, ix.js, schemas.StreamEvents, subject)
	if err != nil || !ok || newest.Time.After(before) {
		return false, err
	}
	if session != "" {
		if seq, place, err := ix.o.Logs.Head(ctx, session); err != nil || seq != 0 || place != 0 {
			return false, nil // a log, or unknown
		}
	}
	err = natsio.PurgeSubject(ctx, stream, subject, jetstream.WithPurgeSequence(newest.Sequence+1))
	return err == nil, err
}
