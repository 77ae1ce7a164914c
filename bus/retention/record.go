package retention

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/codec"
	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// record is the entry of a deletion or a restore in the bucket. A record without an ID means that there is none.
type record struct {
	ID     string    `json:"id"`
	Begun  time.Time `json:"begun"`
	Reason string    `json:"reason,omitempty"`
	Events uint64    `json:"events"` // number of events of the log
	// Restore is the hash at the end of the archive if this is a restore, which has no fence and no bounds.
	Restore string `json:"restore,omitempty"`
	Fence   uint64 `json:"fence,omitempty"`
	// Examined are the bounds until the fence is stored: what is sent after the examination is a new session's. Earlier
	// versions have none for a deletion by force.
	Examined map[string]uint64 `json:"examined,omitempty"`
	// Force means that the session may have gone on between the examination and the fence.
	Force bool `json:"force,omitempty"`
	// Bounds are the sequences, by stream, up to which messages belong to the deleted session; nil until they are known.
	Bounds map[string]uint64 `json:"bounds,omitempty"`

	session string
	place   place
}

func (r *record) deletes() bool { return r.ID != "" && r.Restore == "" }

func (r *record) restores() bool { return r.ID != "" && r.Restore != "" }

// place is the state of a key of the bucket, by sequences of its stream; 0 if there is no message.
type place struct {
	said uint64 // of the newest record, or marker of its removal
	tail uint64 // of the newest message, which may be a server's answer
}

// recordPrefix begins the keys of records: the bucket has other keys too.
const recordPrefix = "session."

// recordStream is the stream of the bucket.
const recordStream = "KV_" + schemas.BucketDeletions

func recordSubject(session string) string { return keySubject(recordPrefix + session) }

func noBucket(err error) error {
	return fmt.Errorf("%w: no runner of this version has been started with this server and account", err)
}

// load returns the record of a session, one without an ID if there is none. It skips messages that no deleter has put
// there. A client can direct a server's answer to the key: such an answer must neither pass for a deletion, nor prevent
// one, nor hide one. The bucket drops no record for it (decision 79).
func (d *Deleter) load(ctx context.Context, session string) (r *record, err error) {
	err = persist(ctx, func() error {
		r, err = d.read(ctx, session)
		return err
	})
	if err == nil && r.ID == "" && r.place.tail > r.place.said {
		err = d.remove(ctx, r) // only answers of servers
	}
	if err != nil {
		return nil, fmt.Errorf("record of the deletion of session %s: %w", session, err)
	}
	return r, nil
}

func (d *Deleter) read(ctx context.Context, session string) (*record, error) {
	js := d.conn.JetStream()
	stream, err := js.Stream(ctx, recordStream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		err = noBucket(err)
	}
	if err != nil {
		return nil, err
	}
	r := &record{session: session}
	subject := recordSubject(session)
	newest, err := stream.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	natsio.StripAdded(newest.Header)
	if r.take(natsio.Stored{Sequence: newest.Sequence, Header: newest.Header, Data: newest.Data}) {
		return r, nil
	}
	_, err = natsio.ScanSubject(ctx, js, recordStream, subject, 1, newest.Sequence, func(m natsio.Stored) error {
		r.take(m)
		return nil
	})
	if err == nil {
		d.o.Logger.Warn("skipped answers of a NATS server behind the record of a deletion", "session", session,
			"revision", newest.Sequence, "record", r.place.said)
	}
	return r, err
}

// take applies the next message of the key. It reports whether a deleter has put or removed a record with it.
func (r *record) take(m natsio.Stored) bool {
	r.place.tail = m.Sequence
	if m.Unreadable || codec.IsAnswer(m.Header, m.Data) {
		return false
	}
	next := record{session: r.session, place: place{said: m.Sequence, tail: m.Sequence}}
	switch {
	case natsio.Removed(m.Header):
	case json.Unmarshal(m.Data, &next) != nil || next.ID == "":
		return false
	}
	*r = next
	return true
}

// headerOperation is in what removes a key of a bucket of NATS.
const headerOperation = "KV-Operation"

// store stores a record in place of the one it was read as. The error is a *[schemas.ConflictError] if another deleter
// has stored another.
func (d *Deleter) store(ctx context.Context, r *record) error {
	value, err := json.Marshal(r)
	if err == nil {
		err = persist(ctx, func() error { return d.put(ctx, r, nats.Header{}, value) })
	}
	if natsio.Outdated(err) {
		err = &schemas.ConflictError{Session: r.session, Cause: err}
	}
	if err != nil {
		return fmt.Errorf("store the deletion of session %s: %w", r.session, err)
	}
	return nil
}

// remove removes a record, unless another deleter has changed it.
func (d *Deleter) remove(ctx context.Context, r *record) error {
	err := persist(ctx, func() error { return d.put(ctx, r, removal(), nil) })
	if natsio.Outdated(err) {
		return nil
	}
	return err
}

func removal() nats.Header {
	return nats.Header{headerOperation: {"PURGE"}, jetstream.MsgTTLHeader: {markerTTL.String()}}
}

// markerTTL is how long the marker of a removed key is kept, so that watchers of the bucket receive it.
const markerTTL = 10 * time.Minute

// put publishes a message in place of all messages of a key, unless another deleter has put or removed a record since
// this one was read. Servers' answers that have arrived since are skipped: the key has a limit of them.
func (d *Deleter) put(ctx context.Context, r *record, header nats.Header, value []byte) error {
	for deadline := time.Now().Add(natsio.AwayTimeout); ; {
		seq, err := d.replace(ctx, recordPrefix+r.session, r.place.tail, header, value)
		if err == nil {
			r.place = place{said: seq, tail: seq}
			return nil
		}
		if !natsio.Outdated(err) {
			return err
		}
		now, failed := d.read(ctx, r.session)
		switch {
		case failed != nil:
			return failed
		case now.place.said != r.place.said || time.Now().After(deadline):
			return err
		case now.place.tail == r.place.tail && !natsio.Wait(ctx, natsio.RetryWait): // another write of the key is in flight
			return context.Cause(ctx)
		}
		r.place.tail = now.place.tail
	}
}

// persist calls f until it succeeds or fails for good: again while no server answers, or while the bucket has no room
// because runners have not removed servers' answers yet, for [natsio.AwayTimeout] at most.
func persist(ctx context.Context, f func() error) error {
	deadline := time.Now().Add(natsio.AwayTimeout)
	for {
		err := f()
		passing := natsio.NoRoom(err) || natsio.IsAny(err, nats.ErrNoResponders, nats.ErrTimeout,
			jetstream.ErrNoStreamResponse, nats.ErrDisconnected)
		if !passing || time.Now().After(deadline) || !natsio.Wait(ctx, natsio.RetryWait) {
			return err
		}
	}
}
