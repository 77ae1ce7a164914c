package retention

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/bus/queries/index"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// ErrBusy is wrapped by the error of a session that is not deleted because it is active.
var ErrBusy = errors.New("session is busy")

// ErrNoSession is wrapped by the error of a session without a log.
var ErrNoSession = errors.New("no such session")

// condition is what examine finds about a session.
type condition struct {
	tail   uint64 // stream sequence of the newest message on the log's subject
	end    uint64 // stream sequence of the log's newest message
	events uint64
	last   time.Time // of its newest event
	busy   []string  // why the session is active; empty if it is not
	// bounds are the last sequences of the streams after the log was read, and before the inbox was. If the session is at
	// rest and the log has not gone on since, all messages above belong to what comes next.
	bounds map[string]uint64
}

// examine reads the log of a session, and its messages in the inbox and among the timers. A session with a damaged log
// has no active run: no runner drives it.
//
// The order matters. A command up to the bounds that is not in the inbox any more is in the log that was read, or the
// log has gone on. A timer is in its stream before it is in the inbox.
func (d *Deleter) examine(ctx context.Context, session string) (c condition, err error) {
	var entry index.Entry
	damaged := false
	fetch := func(ref string) ([]byte, error) { return d.o.Store.Payload(ctx, ref) }
	for m, err := range d.o.Store.Messages(ctx, session) {
		if errors.Is(err, eventstore.ErrDeleted) {
			return condition{}, nil
		}
		if err != nil {
			return c, err
		}
		c.tail = m.Stream
		if !m.Foreign {
			c.end = m.Stream
		}
		if m.Foreign || damaged {
			continue
		}
		events, err := schemas.DecodeLog(session, m.Header, m.Payload, fetch)
		if err != nil && ctx.Err() != nil {
			return c, ctx.Err()
		}
		damaged = err != nil && (errors.Is(err, eventstore.ErrDamaged) || errors.Is(err, schemas.ErrAttribute))
		if err != nil && !damaged {
			return c, fmt.Errorf("session %s: %w", session, err)
		}
		if damaged {
			if _, last, err := schemas.LogSpan(session, m.Header); err == nil {
				c.events = last
			}
		}
		for _, e := range events {
			damaged = damaged || !entry.Apply(e)
			c.events, c.last = e.Seq, e.Time
		}
	}
	if !damaged && entry.Run {
		c.busy = append(c.busy, "a run is under way")
	}
	if n := entry.Summary.Queued; !damaged && n > 0 {
		c.busy = append(c.busy, fmt.Sprintf("inputs that wait: %d", n))
	}
	if c.bounds, err = d.lastSequences(ctx, bounded...); err != nil {
		return c, err
	}
	timer, err := d.timerWaits(ctx, session)
	if err != nil {
		return c, err
	}
	waiting, err := d.count(ctx, schemas.StreamCommands, d.subjects().Prefix()+".cmd.*."+session+".>")
	if err != nil {
		return c, err
	}
	if waiting > 0 {
		c.busy = append(c.busy, fmt.Sprintf("commands in its inbox: %d", waiting))
	}
	if timer {
		c.busy = append(c.busy, "a timer waits")
	}
	return c, nil
}

// count counts the messages on a subject of a stream.
func (d *Deleter) count(ctx context.Context, stream, subject string) (n uint64, err error) {
	subjects, err := d.stored(ctx, stream, subject)
	for _, m := range subjects {
		n += m
	}
	return n, err
}

// stored returns how many messages a stream has on each subject that matches.
func (d *Deleter) stored(ctx context.Context, stream, subject string) (subjects map[string]uint64, err error) {
	err = persist(ctx, func() error {
		info, err := natsio.LeaderInfo(ctx, d.conn.JetStream(), stream, jetstream.WithSubjectFilter(subject))
		if err == nil {
			subjects = info.State.Subjects
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("what %s has on %s: %w", stream, subject, err)
	}
	return subjects, nil
}

// abort sends an abort to the session and waits until it is not active, for AbortWait at most. bounds are those of the
// examination before: a deletion by force begins with its abort, so the bounds do not grow while it waits.
func (d *Deleter) abort(ctx context.Context, session string, bounds map[string]uint64) (c condition, err error) {
	body, err := schemas.Marshal(&schemas.Abort{Reason: "the session is being deleted", ClearQueue: true})
	if err != nil {
		return c, err
	}
	subject := d.subjects().Command(session, schemas.CommandAbort)
	ack, err := d.conn.JetStream().Publish(ctx, subject, body, natsio.UntilLeader())
	if err != nil {
		return c, fmt.Errorf("abort session %s: %w", session, err)
	}
	bounds[schemas.StreamCommands] = ack.Sequence
	deadline := time.Now().Add(d.o.AbortWait)
	for {
		if c, err = d.examine(ctx, session); err != nil || len(c.busy) == 0 || time.Now().After(deadline) {
			c.bounds = bounds
			return c, err
		}
		if !natsio.Wait(ctx, natsio.RetryWait) {
			return c, context.Cause(ctx)
		}
	}
}
