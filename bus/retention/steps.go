package retention

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// step is a part of a deletion. It may be repeated, also after a new session with the same id has begun.
type step struct {
	name string
	do   func(ctx context.Context, r *record, done *Deleted) error
}

// steps returns the steps in their order. The log comes after everything that a new session must not find: while the
// log has its fence no new session begins, and the log names the payloads. The index comes after the log: a runner that
// writes an entry late checks whether the log still exists, and removes the entry if it does not.
func (d *Deleter) steps() []step {
	p := d.subjects().Prefix()
	return []step{
		{"timers", d.purging(schemas.StreamTimers, p+".sched.%s.*", p+".due.%s.*")},
		{"inbox", d.purgeInbox},
		{"cancel", d.cancelCalls},
		{"calls", d.purging(schemas.StreamTools, p+".tool.*.%s.*")},
		{"updates", d.purging(schemas.StreamUpdates, p+".live.%s.update")},
		{"dead letters", d.purging(schemas.StreamDead, p+".dead.*.%s")},
		{"snapshots", func(ctx context.Context, r *record, _ *Deleted) error {
			return d.o.Store.DeleteSnapshots(ctx, r.session)
		}},
		{"payloads", d.deletePayloads},
		{"log", d.purging(schemas.StreamEvents, p+".evt.%s")},
		{"index", d.deleteEntries},
	}
}

// purging returns a step that purges subjects of a stream up to the record's bound. formats have a verb for the
// session.
func (d *Deleter) purging(stream string, formats ...string) func(context.Context, *record, *Deleted) error {
	return func(ctx context.Context, r *record, _ *Deleted) error {
		for _, format := range formats {
			subject := fmt.Sprintf(format, r.session)
			// The server purges messages with a lower sequence.
			if err := d.purge(ctx, stream, subject, jetstream.WithPurgeSequence(r.Bounds[stream]+1)); err != nil {
				return err
			}
		}
		return nil
	}
}

// purgeInbox purges the commands, and of a deletion by force the timers that were due meanwhile.
func (d *Deleter) purgeInbox(ctx context.Context, r *record, done *Deleted) error {
	inbox := d.subjects().Prefix() + ".cmd.*.%s.>"
	if err := d.purging(schemas.StreamCommands, inbox)(ctx, r, done); err != nil {
		return err
	}
	due, ok := r.Bounds[dueTimers]
	if !ok {
		return nil
	}
	subject := fmt.Sprintf(d.subjects().Prefix()+".cmd.*.%s.%s.*", r.session, schemas.CommandTimer)
	return d.purge(ctx, schemas.StreamCommands, subject, jetstream.WithPurgeSequence(due+1))
}

func (d *Deleter) purge(ctx context.Context, stream, subject string, more ...jetstream.StreamPurgeOpt) error {
	err := persist(ctx, func() error {
		s, err := d.conn.JetStream().Stream(ctx, stream)
		if err == nil {
			err = s.Purge(ctx, append(more, jetstream.WithPurgeSubject(subject))...)
		}
		return unlessGone(stream, err)
	})
	if err != nil {
		return fmt.Errorf("purge %s of %s: %w", subject, stream, err)
	}
	return nil
}

// unlessGone returns err, but nil if it is that the stream of updates does not exist: it is gone with a server that
// has it in memory, until a runner creates it again, and has nothing to delete.
func unlessGone(stream string, err error) error {
	if stream == schemas.StreamUpdates && natsio.IsAny(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	return err
}

// cancelCalls cancels the session's calls at their workers. It does not wait for them: a new session ignores their
// results, which carry the nonces of deleted calls.
func (d *Deleter) cancelCalls(ctx context.Context, r *record, _ *Deleted) error {
	subject := d.subjects().Prefix() + ".tool.*." + r.session + ".*"
	calls, err := d.stored(ctx, schemas.StreamTools, subject)
	if err != nil {
		return err
	}
	for subject := range calls {
		_, session, call, err := d.subjects().ParseTool(subject)
		if err != nil {
			continue
		}
		err = persist(ctx, func() error { return d.cancel(ctx, subject, d.subjects().Cancel(session, call), r) })
		if err != nil {
			return fmt.Errorf("cancel call %s: %w", call, err)
		}
	}
	return nil
}

// cancel cancels the call that is stored on a subject, by its nonce: a new session may have a call with the same key.
func (d *Deleter) cancel(ctx context.Context, subject, to string, r *record) error {
	s, err := d.conn.JetStream().Stream(ctx, schemas.StreamTools)
	if err != nil {
		return err
	}
	m, err := s.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) || err == nil && m.Sequence > r.Bounds[schemas.StreamTools] {
		return nil
	}
	if err != nil {
		return err
	}
	req, err := schemas.ParseToolRequest(m.Data)
	if err != nil {
		return nil // not a call, so no worker executes it
	}
	return d.conn.NATS().Publish(to, []byte(schemas.Cancellation(req.Nonce)))
}

// versions are the tokens of keys before the session.
var versions = regexp.MustCompile(`^v[0-9]+$`)

// deleteEntries deletes the entries of the session in the index, of all versions of its fold, unless they are of a new
// session with the same id. Other keys, which a server made whose answer was directed there, are left: nobody reads
// them, and some cannot be read.
func (d *Deleter) deleteEntries(ctx context.Context, r *record, _ *Deleted) error {
	prefix, suffix := "$KV."+schemas.BucketSessions+".", "."+r.session
	keys, err := d.stored(ctx, "KV_"+schemas.BucketSessions, prefix+"*"+suffix)
	if err != nil {
		return err
	}
	for subject := range keys {
		key := strings.TrimPrefix(subject, prefix)
		if !versions.MatchString(strings.TrimSuffix(key, suffix)) {
			continue
		}
		err := persist(ctx, func() error {
			kv, err := d.conn.JetStream().KeyValue(ctx, schemas.BucketSessions)
			if err != nil {
				return err
			}
			return deleteEntry(ctx, kv, key, r.Fence)
		})
		if err != nil {
			return fmt.Errorf("entry %s: %w", subject, err)
		}
	}
	return nil
}

func deleteEntry(ctx context.Context, kv jetstream.KeyValue, key string, fence uint64) error {
	entry, err := kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	var of struct {
		Stream uint64 `json:"stream"` // last message of the log that the entry includes
	}
	if json.Unmarshal(entry.Value(), &of) == nil && of.Stream > fence {
		return nil
	}
	err = kv.Purge(ctx, key, jetstream.LastRevision(entry.Revision()), jetstream.PurgeTTL(markerTTL))
	if natsio.Outdated(err) { // a runner has written it in the meantime, for the last time
		return deleteEntry(ctx, kv, key, fence)
	}
	return err
}

// deletePayloads deletes the log's payloads in the object store.
func (d *Deleter) deletePayloads(ctx context.Context, r *record, done *Deleted) error {
	for m, err := range d.o.Store.Messages(ctx, r.session) {
		if errors.Is(err, eventstore.ErrDeleted) {
			return nil // by another deleter
		}
		if err != nil {
			return err
		}
		if m.Foreign || m.Stream > r.Fence {
			continue
		}
		events, err := schemas.SplitLog(r.session, m.Header, m.Payload)
		if err != nil {
			continue // damaged: its payloads are unknown
		}
		for _, e := range events {
			switch {
			case e.Ref == "":
			case !eventstore.OwnPayload(r.session, e.Ref): // a log that was not written by a runner can name any payload
				done.Shared++
			default:
				if err := d.o.Store.DeletePayload(ctx, r.session, e.Ref, r.Bounds[blobStream]); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
