package retention

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// Options are what a [Deleter] works with. Store is required.
type Options struct {
	Store *eventstore.Store
	// AbortWait is how long a run that is aborted gets to end; 0: 10 s.
	AbortWait time.Duration
	// Logger logs each session that is deleted; nil discards.
	Logger *slog.Logger
	// AfterStep, if set, is called after each step of a deletion, with its name. An error ends it there, as a crash would.
	AfterStep func(step string) error
}

// Deleter deletes sessions. All methods may be called concurrently, and by any number of processes.
type Deleter struct {
	conn *bus.Conn
	o    Options
}

// NewDeleter returns a Deleter on a connection that stays the caller's and has to outlive it.
func NewDeleter(c *bus.Conn, o Options) *Deleter {
	o.AbortWait = cmp.Or(o.AbortWait, 10*time.Second)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return &Deleter{c, o}
}

func (d *Deleter) subjects() schemas.Subjects { return d.conn.Subjects() }

// Request says which session to delete, and how.
type Request struct {
	Session string
	// Force aborts what is under way, and deletes the session whether that ends or not.
	Force bool
	// At, if not 0, is where the log has to end: the sequence of its newest message in the stream. A log that has grown
	// on is not deleted.
	At uint64
	// Reason is why, for the audit.
	Reason string
}

// Deleted is what a deletion has deleted.
type Deleted struct {
	Session string
	Events  uint64 // that its log had
	// Shared are payloads that stay in the object store, because earlier versions gave equal payloads of all sessions one
	// name.
	Shared int
}

// Delete deletes all there is of a session: log, snapshot, payloads, what is in its inbox, calls, timers, updates, dead
// letters, and its entry in the index. A command that is sent afterwards begins the session anew. A deletion that was
// interrupted is completed first.
//
// The error wraps [ErrBusy] where a run is under way or something waits, unless Force is set; nothing is changed then.
// It wraps [ErrNoSession] where there is no log. After any other error call Delete again.
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
	if rec != nil {
		if done, err = d.goOn(ctx, rec); err != nil || done.Events > 0 {
			return done, err
		}
	}
	c, err := d.examine(ctx, r.Session)
	switch {
	case err != nil:
		return done, err
	case c.events == 0:
		return done, ErrNoSession
	case len(c.busy) > 0 && !r.Force:
		return done, c.err(r.Session)
	case len(c.busy) > 0:
		if c, err = d.abort(ctx, r.Session); err != nil {
			return done, err
		}
	}
	if r.At != 0 && r.At != c.end {
		return done, &schemas.ConflictError{Session: r.Session, Seq: c.events}
	}
	rec = &record{ID: rand.Text(), Begun: time.Now().UTC(), Reason: r.Reason, Events: c.events, session: r.Session}
	if err := d.store(ctx, rec); err != nil {
		return done, err
	}
	if err := d.after("record"); err != nil {
		return done, err
	}
	if r.Force && r.At == 0 {
		c.tail = eventstore.Wherever // a run that does not end goes on appending
	}
	if _, err := d.o.Store.Fence(ctx, r.Session, rec.ID, c.tail); err != nil {
		if errors.Is(err, schemas.ErrConflict) {
			err = errors.Join(err, d.remove(ctx, rec))
		}
		return done, err
	}
	if err := d.after("fence"); err != nil {
		return done, err
	}
	return d.goOn(ctx, rec)
}

// Deleting reports whether a session is being deleted by the deletion with this id. It is
// [eventstore.Options.Deleting].
func (d *Deleter) Deleting(ctx context.Context, session, id string) (bool, error) {
	rec, err := d.load(ctx, session)
	return err == nil && rec != nil && rec.ID == id, err
}

// Resume finishes a deletion that was interrupted, or is under way elsewhere; it does nothing where there is none.
func (d *Deleter) Resume(ctx context.Context, session string) error {
	rec, err := d.load(ctx, session)
	if err == nil && rec != nil {
		_, err = d.goOn(ctx, rec)
	}
	if err != nil {
		return fmt.Errorf("retention: finish the deletion of session %s: %w", session, err)
	}
	return nil
}

// goOn finishes a deletion whose fence is stored. Of one without a fence it removes the record: either nothing has been
// deleted, or all but the entry of the index. Events of what it returns is 0 then.
func (d *Deleter) goOn(ctx context.Context, rec *record) (done Deleted, err error) {
	fence, err := d.o.Store.Fenced(ctx, rec.session, rec.ID)
	if err != nil {
		return done, err
	}
	if fence == 0 {
		if rec.Fence != 0 { // it was there: the log has been deleted, and what is behind that may be left
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
