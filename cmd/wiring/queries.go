package wiring

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/queries"
	"github.com/loopbus/loopbus/bus/queries/index"
	"github.com/loopbus/loopbus/bus/service"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/bus/watchdog"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/loop/view"
	"github.com/loopbus/loopbus/schemas"
)

// openIndex returns the index of the sessions. It is closed after the host, so that it includes what the host did
// last.
func openIndex(conn *bus.Conn, store *eventstore.Store, o Options) *index.Index {
	x := o.Index
	x.Logs, x.Damaged, x.Logger = store, eventstore.ErrDamaged, o.Logger
	x.Setup = func(ctx context.Context) error { return streams.Setup(ctx, conn, o.Streams) }
	return index.Open(conn, x)
}

// tracked is a session's log whose appends the index follows.
type tracked struct {
	*eventstore.Log
	track *index.Track
}

// open opens the log of a session that this runner is about to drive.
func (r *Runner) open(ctx context.Context, session string) (host.SessionLog, error) {
	log, err := r.Store.Open(ctx, session)
	if errors.Is(err, eventstore.ErrRestoring) {
		r.warnRestoring(session)
		err = fmt.Errorf("%w: %w", err, schemas.ErrConflict) // its commands wait
	}
	if errors.Is(err, eventstore.ErrDeleting) {
		// The deleter may have died: complete the deletion. That also deletes the session's commands in the inbox, perhaps
		// including the one being delivered. On a conflict the inbox checks whether it still exists before it redelivers it.
		if err = r.Deleter.Resume(ctx, session); err == nil {
			err = fmt.Errorf("session %s was deleted: %w", session, schemas.ErrConflict)
		}
	}
	if err != nil {
		return nil, err
	}
	seq, _ := log.Stored()
	return &tracked{log, r.Index.Track(session, seq, log.Stored)}, nil
}

// warnRestoring logs that commands of a session wait for its restore, at most once a minute for all sessions.
func (r *Runner) warnRestoring(session string) {
	now, last := time.Now().Unix(), r.waited.Load()
	if now-last >= 60 && r.waited.CompareAndSwap(last, now) {
		r.o.Logger.Warn("commands wait for a session that is being restored: if its restore was interrupted, restore the "+
			"archive again, or delete the session with --force", "session", session)
	}
}

func (l *tracked) Append(ctx context.Context, e schemas.Event) error {
	err := l.Log.Append(ctx, e)
	if err == nil {
		l.track.Appended(e)
	}
	return err
}

func (l *tracked) Close() {
	l.track.Close()
	l.Log.Close()
}

// recent returns the event that is the outcome of a command, if it is in memory.
func (r *Runner) recent(session, command string) (schemas.Event, bool) {
	return r.Index.Recent(session, command)
}

// search returns the event that is the outcome of a command.
func (r *Runner) search(ctx context.Context, session, command string) (e schemas.Event, found bool, err error) {
	return r.Index.SearchOutcome(ctx, session, command)
}

// pending returns the sessions that a lost message would stop.
func (r *Runner) pending() (all []watchdog.Session) {
	for _, e := range r.Index.View().Entries {
		if e.Pending() {
			all = append(all, watchdog.Session{Name: e.Summary.Session, Last: e.Stream})
		}
	}
	return all
}

// Catalogue answers queries about models. Window returns the context window of a model in tokens; Models lists the
// models. Either may be nil.
type Catalogue struct {
	Window func(m schemas.ModelRef) int64
	Models func() []schemas.ModelInfo
}

// Queries returns the endpoints of the runner's service that answer queries about sessions and models.
func (r *Runner) Queries(c Catalogue) []service.Endpoint {
	return queries.Endpoints(r.Conn, queries.Options{
		Index: r.Index, Logs: r.Store, View: viewOf(r.Store), Window: c.Window, Models: c.Models,
		Tree:    func(leaf, before string) queries.Tree { return view.NewTree(leaf, before) },
		Damaged: eventstore.ErrDamaged, Loads: r.o.Host.Loads, Logger: r.o.Logger,
	})
}

// viewOf returns a function that folds a session's log for queries.
func viewOf(store *eventstore.Store) func(ctx context.Context, session string) (queries.View, error) {
	return func(ctx context.Context, session string) (queries.View, error) {
		state, err := fold(ctx, store, session)
		if err != nil {
			return nil, err
		}
		return view.Of(state), nil
	}
}

// State folds a session's log, starting from its snapshot, by one of the few readers of logs. The caller owns the
// state.
func (r *Runner) State(ctx context.Context, session string) (state *loop.State, err error) {
	err = r.Index.Read(ctx, session, func() error {
		ctx, end := r.o.Host.Loads.Load(ctx)
		defer end()
		state, err = fold(ctx, r.Store, session)
		return err
	})
	return state, err
}

func fold(ctx context.Context, store *eventstore.Store, session string) (*loop.State, error) {
	log, err := store.Open(ctx, session)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	return view.Fold(ctx, session, log)
}
