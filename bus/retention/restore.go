package retention

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// ErrOtherRestore is wrapped by the error of a restore while that of another archive of the session is not complete.
var ErrOtherRestore = errors.New("another archive of the session is being restored")

// Restore is a restore of a session in progress. The session does not open while its log has no message, or the last
// one has the ID of the restore in its header [schemas.HeaderRestore].
type Restore struct {
	ID string

	d   *Deleter
	rec *record
}

// BeginRestore records that a session is being restored from an archive, which is named by the hash at its end. It
// continues a restore of this archive that was interrupted, and completes a deletion of the session that was. The error
// wraps [ErrOtherRestore] if another archive was being restored.
func (d *Deleter) BeginRestore(ctx context.Context, session, archive string) (*Restore, error) {
	for {
		rec, err := d.load(ctx, session)
		switch {
		case err != nil:
			return nil, err
		case rec.deletes():
			if err := d.Resume(ctx, session); err != nil {
				return nil, err
			}
			continue
		case rec.restores() && rec.Restore != archive:
			return nil, fmt.Errorf("%w since %s: restore that one to its end, or force the deletion of the session",
				ErrOtherRestore, rec.Begun.Format(time.RFC3339))
		case !rec.restores():
			rec = &record{ID: rand.Text(), Begun: time.Now().UTC(), Restore: archive, session: session, place: rec.place}
			if err := d.store(ctx, rec); errors.Is(err, schemas.ErrConflict) {
				continue // another process was faster
			} else if err != nil {
				return nil, err
			}
		}
		return &Restore{rec.ID, d, rec}, nil
	}
}

// End lets the session open. It does nothing if the restore has ended, by a call whose answer was lost or by another
// process. Its error wraps [ErrBusy] if the session was deleted in the meantime, or is being deleted.
func (r *Restore) End(ctx context.Context) error {
	err := persist(ctx, func() error { return r.d.put(ctx, r.rec, removal(), nil) })
	if natsio.Outdated(err) {
		err = r.ended(ctx)
	}
	if err != nil {
		return fmt.Errorf("end the restore of session %s: %w", r.rec.session, err)
	}
	return nil
}

// ended returns nil if the restore has no record any more, and the log ends with a message of it.
func (r *Restore) ended(ctx context.Context) error {
	rec, err := r.d.load(ctx, r.rec.session)
	if err != nil {
		return err
	}
	subject := r.d.subjects().Event(r.rec.session)
	m, found, err := natsio.Last(ctx, r.d.conn.JetStream(), schemas.StreamEvents, subject)
	switch {
	case err != nil:
		return err
	case rec.ID != "" || !found || m.Header.Get(schemas.HeaderRestore) != r.ID:
		return fmt.Errorf("%w: it was deleted, or has gone on since", ErrBusy)
	}
	return nil
}
