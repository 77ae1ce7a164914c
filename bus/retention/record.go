package retention

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// record is what the bucket has of a deletion under way.
type record struct {
	ID     string    `json:"id"`
	Begun  time.Time `json:"begun"`
	Reason string    `json:"reason,omitempty"`
	Events uint64    `json:"events"` // that the log had
	Fence  uint64    `json:"fence,omitempty"`
	// Bounds are the sequences up to which the streams have what is the deleted session's; nil until they are known.
	Bounds map[string]uint64 `json:"bounds,omitempty"`

	session  string
	revision uint64
}

// recordPrefix is before the session in a key: the bucket has other keys.
const recordPrefix = "session."

func (d *Deleter) bucket(ctx context.Context) (jetstream.KeyValue, error) {
	kv, err := d.conn.JetStream().KeyValue(ctx, schemas.BucketDeletions)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		err = fmt.Errorf("%w: no runner of this version has been started with this server and account", err)
	}
	return kv, err
}

// load returns the record of a session; nil if there is none. What no deleter has put there is taken away: a server
// answers wherever somebody has it answer, and such an answer must neither pass for a deletion nor prevent one.
func (d *Deleter) load(ctx context.Context, session string) (r *record, err error) {
	err = persist(ctx, func() error {
		kv, err := d.bucket(ctx)
		if err != nil {
			return err
		}
		entry, err := kv.Get(ctx, recordPrefix+session)
		if errors.Is(err, jetstream.ErrKeyNotFound) {
			r = nil
			return nil
		}
		if err != nil {
			return err
		}
		r = &record{session: session, revision: entry.Revision()}
		if json.Unmarshal(entry.Value(), r) == nil && r.ID != "" {
			return nil
		}
		d.o.Logger.Warn("record of a deletion that no deleter has made, removed", "session", session,
			"revision", entry.Revision())
		foreign := record{session: session, revision: entry.Revision()}
		r = nil
		return d.remove(ctx, &foreign)
	})
	if err != nil {
		return nil, fmt.Errorf("record of the deletion of session %s: %w", session, err)
	}
	return r, nil
}

// store stores a record in place of the one it was read as. The error is a *[schemas.ConflictError] if another deleter
// has stored another.
func (d *Deleter) store(ctx context.Context, r *record) error {
	value, err := json.Marshal(r)
	if err == nil {
		err = persist(ctx, func() error {
			kv, err := d.bucket(ctx)
			if err != nil {
				return err
			}
			if r.revision == 0 {
				r.revision, err = kv.Create(ctx, recordPrefix+r.session, value)
			} else {
				r.revision, err = kv.Update(ctx, recordPrefix+r.session, value, r.revision)
			}
			return err
		})
	}
	if errors.Is(err, jetstream.ErrKeyExists) {
		err = &schemas.ConflictError{Session: r.session, Cause: err}
	}
	if err != nil {
		return fmt.Errorf("store the deletion of session %s: %w", r.session, err)
	}
	return nil
}

// remove removes a record, unless another deleter has changed it.
func (d *Deleter) remove(ctx context.Context, r *record) error {
	return persist(ctx, func() error {
		kv, err := d.bucket(ctx)
		if err == nil {
			err = kv.Purge(ctx, recordPrefix+r.session, jetstream.LastRevision(r.revision), jetstream.PurgeTTL(markTTL))
		}
		if conflict(err) {
			return nil
		}
		return err
	})
}

// markTTL is how long the mark of a key that was removed is kept, so that the followers of the bucket see it.
const markTTL = 10 * time.Minute

func conflict(err error) bool {
	return errors.Is(err, jetstream.ErrKeyExists) || natsio.HasCode(err, jetstream.JSErrCodeStreamWrongLastSequence)
}

// persist calls f again while nobody answers, for [natsio.AwayTimeout] at most.
func persist(ctx context.Context, f func() error) error {
	deadline := time.Now().Add(natsio.AwayTimeout)
	for {
		err := f()
		passing := errors.Is(err, nats.ErrNoResponders) || errors.Is(err, nats.ErrTimeout) ||
			errors.Is(err, jetstream.ErrNoStreamResponse) || errors.Is(err, nats.ErrDisconnected)
		if !passing || time.Now().After(deadline) || !natsio.Wait(ctx, natsio.RetryWait) {
			return err
		}
	}
}
