package retention

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// Options configure a [Deleter]. Store is required.
type Options struct {
	Store *eventstore.Store
	// AbortWait is how long to wait for an aborted run to end; 0 means 10 s.
	AbortWait time.Duration
	// Logger logs each deleted session; nil discards.
	Logger *slog.Logger
	// AfterStep, if set, is called after each step of a deletion, with its name. An error stops the deletion there, as a
	// crash would.
	AfterStep func(step string) error
}

// Deleter deletes sessions. All methods may be called concurrently, and by any number of processes.
type Deleter struct {
	conn *bus.Conn
	o    Options
}

// NewDeleter returns a Deleter on a connection, which the caller keeps open for as long as it uses the Deleter.
func NewDeleter(c *bus.Conn, o Options) *Deleter {
	o.AbortWait = cmp.Or(o.AbortWait, 10*time.Second)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return &Deleter{c, o}
}

func (d *Deleter) subjects() schemas.Subjects { return d.conn.Subjects() }

// Request is a request to delete a session.
type Request struct {
	Session string
	// Force aborts the current run, and deletes the session whether the run ends or not.
	Force bool
	// At, if not 0, is the stream sequence that the log's newest message has to have. A log that has grown since is not
	// deleted.
	At uint64
	// Reason is the reason, for the audit log.
	Reason string
}

// Deleted describes a deletion.
type Deleted struct {
	Session string
	Events  uint64 // number of events of its log
	// Shared is the number of payloads that stay in the object store, because they are not the session's own: earlier
	// versions gave equal payloads of all sessions one name.
	Shared int
}

// Delete deletes all data of a session: log, snapshots, payloads, commands in its inbox, tool calls, timers, updates,
// dead letters, and its entry in the index. A command that is sent afterwards, or meanwhile, starts a new session with
// the same id. By force, one that the log still accepts before its fence goes with the log. Delete completes an
// interrupted deletion, and leaves what was sent since that one began.
//
// The error wraps [ErrBusy] if a run is active, inputs, commands or a timer wait, or the session is being restored,
// unless Force is set; nothing is changed then. It wraps [ErrNoSession] if there is no log. After any other error the
// caller should call Delete again.
func (d *Deleter) Delete(ctx context.Context, r Request) (Deleted, error) {
	if err := schemas.CheckSession(r.Session); err != nil {
		return Deleted{}, fmt.Errorf("retention: delete: %w", err)
	}
	done, err := d.delete(ctx, r)
	if errors.Is(err, schemas.ErrConflict) {
		err = fmt.Errorf("%w: it has gone on: %w", ErrBusy, err)
	}
	if err != nil {
		return done, fmt.Errorf("retention: delete session %s: %w", r.Session, err)
	}
	return done, nil
}

func (d *Deleter) delete(ctx context.Context, r Request) (done Deleted, err error) {
	rec, err := d.load(ctx, r.Session)
	if err != nil {
		return done, err
	}
	if rec.restores() && !r.Force {
		return done, fmt.Errorf("%w: session %s is being restored since %s: restore the archive again to complete it, or "+
			"force the deletion", ErrBusy, r.Session, rec.Begun.Format(time.RFC3339))
	}
	if rec.deletes() {
		if done, err = d.complete(ctx, rec); err != nil || done.Session != "" {
			return done, err
		}
		if rec, err = d.load(ctx, r.Session); err != nil {
			return done, err
		}
	}
	c, err := d.examine(ctx, r.Session)
	switch {
	case err != nil:
		return done, err
	case c.end == 0 && rec.restores():
		return done, errors.Join(ErrNoSession, d.remove(ctx, rec))
	case c.end == 0:
		return done, ErrNoSession
	case rec.restores(): // no runner drives it, so nobody would abort a run
	case len(c.busy) > 0 && !r.Force:
		return done, fmt.Errorf("%w: session %s: %s", ErrBusy, r.Session, strings.Join(c.busy, ", "))
	case len(c.busy) > 0:
		if c, err = d.abort(ctx, r.Session, c.bounds); err != nil {
			return done, err
		}
	}
	if r.At != 0 && r.At != c.end {
		return done, &schemas.ConflictError{Session: r.Session, Seq: c.events}
	}
	rec = &record{ID: rand.Text(), Begun: time.Now().UTC(), Reason: r.Reason, Events: c.events, Force: r.Force,
		Examined: c.bounds, session: r.Session, place: rec.place}
	if err := d.store(ctx, rec); err != nil {
		return done, err
	}
	if err := d.after("record"); err != nil {
		return done, err
	}
	if r.Force && r.At == 0 {
		c.tail = eventstore.Wherever // a run that does not end keeps appending
	}
	narrow, err := d.fence(ctx, r.Session, rec.ID, c.tail)
	defer narrow()
	if err != nil {
		if errors.Is(err, schemas.ErrConflict) {
			err = errors.Join(err, d.remove(ctx, rec))
		}
		return done, err
	}
	if err := d.after("fence"); err != nil {
		return done, err
	}
	return d.complete(ctx, rec)
}

// InProgress reports whether the deletion or the restore of a session with this id is in progress; for the id "",
// whether any restore is. It is [eventstore.Options.InProgress].
func (d *Deleter) InProgress(ctx context.Context, session, id string) (bool, error) {
	rec := &record{session: session}
	// The leader knows of a restore before its first message is stored, another replica may not.
	var newest natsio.Stored
	var found bool
	err := persist(ctx, func() (err error) {
		newest, found, err = natsio.Last(ctx, d.conn.JetStream(), recordStream, recordSubject(session))
		return err
	})
	if err == nil && found && !rec.take(newest) {
		rec, err = d.load(ctx, session)
	}
	if err != nil {
		return false, fmt.Errorf("retention: what is in progress for session %s: %w", session, err)
	}
	if id == "" {
		return rec.restores(), nil
	}
	return rec.ID == id, nil
}

// Resume completes a deletion of the session that was interrupted, or that another process is carrying out. Without one
// it does nothing.
func (d *Deleter) Resume(ctx context.Context, session string) error {
	rec, err := d.load(ctx, session)
	if err == nil && rec.deletes() {
		_, err = d.complete(ctx, rec)
	}
	if err != nil {
		return fmt.Errorf("retention: finish the deletion of session %s: %w", session, err)
	}
	return nil
}

// complete completes a deletion whose fence is stored. Without a fence either nothing was deleted, or everything but
// the entry of the index: complete then removes the entry and the record, and returns no session.
func (d *Deleter) complete(ctx context.Context, rec *record) (done Deleted, err error) {
	fence, err := d.o.Store.Fenced(ctx, rec.session, rec.ID)
	if errors.Is(err, eventstore.ErrDeleted) { // by another deleter, with the fence
		fence, err = 0, nil
	}
	if err != nil {
		return done, err
	}
	if fence == 0 {
		if rec.Fence != 0 { // the fence was deleted with the log, but the step after that may be missing
			if err := d.deleteEntries(ctx, rec, &done); err != nil {
				return done, err
			}
		}
		return done, d.remove(ctx, rec)
	}
	if rec.Bounds == nil {
		if rec, err = d.bound(ctx, rec, fence); err != nil || rec == nil {
			return done, err
		}
		if err := d.after("bounds"); err != nil {
			return done, err
		}
	}
	done.Session, done.Events = rec.session, rec.Events
	for _, s := range d.steps() {
		if err := s.do(ctx, rec, &done); err != nil {
			return done, fmt.Errorf("%s: %w", s.name, err)
		}
		if err := d.after(s.name); err != nil {
			return done, err
		}
	}
	if err := d.remove(ctx, rec); err != nil {
		return done, err
	}
	d.o.Logger.Info("session deleted", "session", rec.session, "events", rec.Events, "reason", rec.Reason,
		"shared", done.Shared)
	return done, d.after("all")
}

func (d *Deleter) after(step string) error {
	if d.o.AfterStep == nil {
		return nil
	}
	return d.o.AfterStep(step)
}
