package retention

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// bounded are the streams with a bound.
var bounded = []string{schemas.StreamTimers, schemas.StreamCommands, schemas.StreamTools, schemas.StreamUpdates,
	schemas.StreamDead, blobStream}

// blobStream is the stream of the payloads. A payload has the same name again after a restore, so a deleter that is
// late must not delete what was stored after the deletion.
const blobStream = "OBJ_" + schemas.BucketBlobs

// lastSequences returns the last sequences of streams.
func (d *Deleter) lastSequences(ctx context.Context, streams ...string) (map[string]uint64, error) {
	last := map[string]uint64{}
	for _, name := range streams {
		err := persist(ctx, func() error {
			info, err := natsio.LeaderInfo(ctx, d.conn.JetStream(), name)
			if err == nil {
				last[name] = info.State.LastSeq
			}
			return unlessGone(name, err)
		})
		if err != nil {
			return nil, fmt.Errorf("last sequence of %s: %w", name, err)
		}
	}
	return last, nil
}

// bound fixes the bounds of a deletion whose fence is stored, in its record, and returns the record. If another deleter
// was faster it returns that one's record, or nil if that one has completed the deletion, or given it up.
func (d *Deleter) bound(ctx context.Context, r *record, fence uint64) (*record, error) {
	bounds, err := r.Examined, error(nil)
	if r.Force || bounds == nil {
		if bounds, err = d.settled(ctx, r, fence); bounds == nil {
			return nil, err
		}
	}
	bounds[schemas.StreamEvents] = fence
	r.Fence, r.Bounds, r.Examined = fence, bounds, nil
	err = d.store(ctx, r)
	if errors.Is(err, schemas.ErrConflict) {
		other, err := d.load(ctx, r.session)
		switch {
		case err != nil || other.ID == "":
			return nil, err
		case other.Bounds != nil:
			return other, nil
		}
		return nil, fmt.Errorf("the record of session %s was changed by another deleter", r.session)
	}
	return r, err
}

// dueTimers is the bound of the timers in the inbox, which the server stores there behind what was sent meanwhile.
const dueTimers = schemas.StreamCommands + ".timer"

// settled returns the bounds of a deletion by force, once no timer of the session is on its way to the inbox. While
// record and fence are there no new session begins, so all is the deleted one's, except for what was sent after the
// examination. It returns nil if another deleter has completed the deletion, or given it up.
func (d *Deleter) settled(ctx context.Context, r *record, fence uint64) (map[string]uint64, error) {
	timers, err := d.lastSequences(ctx, schemas.StreamTimers)
	if err != nil {
		return nil, err
	}
	// With record and fence still there, no timer up to this sequence is a new session's.
	if now, err := d.load(ctx, r.session); err != nil || now.ID != r.ID {
		return nil, err
	}
	if err := d.settleTimers(ctx, r.session, timers[schemas.StreamTimers]); err != nil {
		return nil, err
	}
	bounds, err := d.lastSequences(ctx, bounded...)
	if err != nil {
		return nil, err
	}
	bounds[schemas.StreamTimers], bounds[dueTimers] = timers[schemas.StreamTimers], bounds[schemas.StreamCommands]
	sent := r.Examined
	if sent == nil {
		if sent, err = d.sentBefore(ctx, r.session, fence); err != nil {
			return nil, err
		}
	}
	for _, stream := range []string{schemas.StreamCommands, schemas.StreamDead} {
		bounds[stream] = sent[stream]
	}
	return bounds, nil
}

// sentBefore returns the sequences, by stream, up to which commands and dead letters of a session were stored before
// its fence: the bounds of a deletion by force that an earlier version began.
func (d *Deleter) sentBefore(ctx context.Context, session string, fence uint64) (map[string]uint64, error) {
	js, p, sent := d.conn.JetStream(), d.subjects().Prefix(), map[string]uint64{}
	at, _, err := natsio.At(ctx, js, schemas.StreamEvents, fence)
	for stream, subject := range map[string]string{
		schemas.StreamCommands: p + ".cmd.*." + session + ".>", schemas.StreamDead: p + ".dead.*." + session,
	} {
		if err == nil {
			_, err = natsio.ScanSubject(ctx, js, stream, subject, 1, math.MaxUint64, func(m natsio.Stored) error {
				if !m.Time.After(at.Time) {
					sent[stream] = m.Sequence
				}
				return nil
			})
		}
	}
	if err != nil {
		return nil, fmt.Errorf("what was sent before a deletion that an earlier version began: %w", err)
	}
	return sent, nil
}

// settleWait bounds the wait for due timers to reach the inbox.
const settleWait = 5 * time.Second

// settleTimers removes the session's timers up to a sequence and waits until the inbox has those that were due.
func (d *Deleter) settleTimers(ctx context.Context, session string, upTo uint64) error {
	for _, subject := range []string{d.subjects().Schedule(session, "*"), d.subjects().Due(session, "*")} {
		if err := d.purge(ctx, schemas.StreamTimers, subject, jetstream.WithPurgeSequence(upTo+1)); err != nil {
			return err
		}
	}
	for deadline := time.Now().Add(settleWait); ; {
		var lag uint64
		err := persist(ctx, func() error {
			s, err := d.conn.JetStream().Stream(ctx, schemas.StreamCommands)
			if err != nil {
				return err
			}
			for _, source := range s.CachedInfo().Sources {
				lag += source.Lag
			}
			return nil
		})
		if err != nil || lag == 0 || time.Now().After(deadline) {
			return err
		}
		if !natsio.Wait(ctx, natsio.RetryWait) {
			return context.Cause(ctx)
		}
	}
}
