package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/embedded"
	"github.com/loopbus/loopbus/bus/retention/archive"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// connectTimeout limits how long the server may take to answer whether it has logs.
const connectTimeout = 5 * time.Second

// logs reads the sessions' logs.
type logs struct {
	conn  *bus.Conn
	store *eventstore.Store
}

// withLogs calls do with the logs of a server, a store or an archive. For a store or an archive it starts an
// in-process server that no other process can reach. It creates nothing that outlives the process.
func withLogs(ctx context.Context, o options, log *slog.Logger, do func(context.Context, *logs) error) error {
	read := func(ctx context.Context, conn *bus.Conn) error {
		l := &logs{conn: conn}
		soon, cancel := context.WithTimeout(ctx, connectTimeout)
		defer cancel()
		if err := l.checkStream(soon); err != nil {
			return err
		}
		var err error
		l.store, err = eventstore.New(conn.Events(), eventstore.Options{Subjects: conn.Subjects(), Logger: log,
			ByConsumer: len(o.sessions) > 0})
		if err != nil {
			return err
		}
		return do(ctx, l)
	}
	if o.Archive != "" {
		return withArchive(ctx, o.Archive, log, read)
	}
	if o.Store == "" {
		return o.Connection.Look(ctx, "replay", log, read)
	}
	server, err := openStore(o.Store, log)
	if err != nil {
		return err
	}
	defer server.Shutdown()
	conn, err := bus.Connect(ctx, bus.ConnOptions{InProcess: server, Name: "replay", Prefix: o.Connection.Prefix,
		Logger: log})
	if err != nil {
		return err
	}
	defer conn.Close()
	return read(ctx, conn)
}

// withArchive restores an archive into a temporary in-process server, so that everything that works on a log works on
// an archive.
func withArchive(ctx context.Context, path string, log *slog.Logger,
	read func(context.Context, *bus.Conn) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	dir, err := os.MkdirTemp("", "loopbus-replay-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	server, err := embedded.Start(embedded.Options{StoreDir: dir, InProcessOnly: true, Name: "replay", Logger: log})
	if err != nil {
		return err
	}
	defer server.Shutdown()
	conn, err := bus.Connect(ctx, bus.ConnOptions{InProcess: server, Name: "replay", Logger: log})
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := streams.Setup(ctx, conn, streams.Options{}); err != nil {
		return err
	}
	store, err := eventstore.New(conn.Events(), eventstore.Options{Logger: log})
	if err != nil {
		return err
	}
	if _, err := archive.Restore(ctx, conn, store, file); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return read(ctx, conn)
}

// openStore starts a server on an existing store; the server itself would create a missing one.
func openStore(dir string, log *slog.Logger) (*embedded.Server, error) {
	stream := filepath.Join(dir, server.JetStreamStoreDir, server.DEFAULT_GLOBAL_ACCOUNT, "streams", schemas.StreamEvents)
	if _, err := os.Stat(stream); err != nil {
		return nil, fmt.Errorf("%s is not the store of a runner: %w", dir, err)
	}
	s, err := embedded.Start(embedded.Options{StoreDir: dir, InProcessOnly: true, Name: "replay", Logger: log})
	if err != nil {
		return nil, fmt.Errorf("%w (if a runner is using the store, read from the runner's server with --nats)", err)
	}
	return s, nil
}

// checkStream explains in plain words why no logs can be found.
func (l *logs) checkStream(ctx context.Context) error {
	stream, err := l.conn.JetStream().Stream(ctx, schemas.StreamEvents)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return fmt.Errorf("there is no stream %s: no runner has used this server or account yet", schemas.StreamEvents)
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return fmt.Errorf("the server keeps no streams for this account: %w", err)
	case err != nil:
		return fmt.Errorf("look up stream %s: %w", schemas.StreamEvents, err)
	}
	want, have := l.conn.Subjects().Event("*"), stream.CachedInfo().Config.Subjects
	if !slices.Contains(have, want) {
		return fmt.Errorf("stream %s has the subjects %v and not %s: use the --prefix of the runners", schemas.StreamEvents,
			have, want)
	}
	return nil
}

// sessions returns the information about every session, ordered by id.
func (l *logs) sessions(ctx context.Context) ([]eventstore.SessionInfo, error) {
	var all []eventstore.SessionInfo
	for info, err := range l.store.Sessions(ctx) {
		if err != nil {
			return nil, err
		}
		all = append(all, info)
	}
	return all, nil
}

// moment is a point in a session's log: an event's sequence or a time. The zero value is the end of the log.
type moment struct {
	seq  uint64
	time time.Time
}

func parseMoment(s string) (moment, error) {
	if s == "" {
		return moment{}, nil
	}
	if seq, err := strconv.ParseUint(s, 10, 64); err == nil && seq > 0 {
		return moment{seq: seq}, nil
	}
	if t, err := time.Parse(time.RFC3339Nano, s); err == nil {
		return moment{time: t}, nil
	}
	return moment{}, fmt.Errorf("--at: %q is neither a sequence (1 or more) nor a time such as 2026-01-02T15:04:05Z", s)
}

// events yields a session's events up to a moment, which must be inside its log. An error is yielded last.
func (l *logs) events(ctx context.Context, session string, at moment) iter.Seq2[schemas.Event, error] {
	return func(yield func(schemas.Event, error) bool) {
		if err := l.readUpTo(ctx, session, at, func(e schemas.Event) bool { return yield(e, nil) }); err != nil {
			yield(schemas.Event{}, err)
		}
	}
}

// seqAt returns the sequence of the event at a moment, 0 for the end of the log.
func (l *logs) seqAt(ctx context.Context, session string, at moment) (uint64, error) {
	if at.time.IsZero() {
		return at.seq, nil
	}
	seq, err := l.store.At(ctx, session, at.time)
	if err == nil && seq == 0 {
		err = fmt.Errorf("session %s has no event at or before %s", session, at.time.Format(time.RFC3339Nano))
	}
	return seq, err
}

func (l *logs) readUpTo(ctx context.Context, session string, at moment, yield func(schemas.Event) bool) error {
	var err error
	if at.seq, err = l.seqAt(ctx, session, at); err != nil {
		return err
	}
	var last uint64
	for e, err := range l.store.Read(ctx, session, 1) {
		if err != nil {
			return err
		}
		if last = e.Seq; !yield(e) || last == at.seq {
			return nil
		}
	}
	switch {
	case last == 0:
		return noLog(session)
	case last < at.seq:
		return fmt.Errorf("session %s has no event %d: it ends at %d", session, at.seq, last)
	}
	return nil
}

func noLog(session string) error {
	return fmt.Errorf("session %s has no log; replay list shows the sessions", session)
}
