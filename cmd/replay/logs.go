package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
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

// connectTimeout bounds how long to try to reach the server.
const connectTimeout = 5 * time.Second

// logs is where the sessions' logs are read from.
type logs struct {
	server *embedded.Server // of --store and --archive
	dir    string           // of the server of --archive
	conn   *bus.Conn
	store  *eventstore.Store
}

// openLogs connects to the server, or starts one on the store that nobody but this process can reach. Neither creates
// anything. The caller has to close it.
func openLogs(ctx context.Context, o options, log *slog.Logger) (*logs, error) {
	l := new(logs)
	if err := l.open(ctx, o, log); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *logs) open(ctx context.Context, o options, log *slog.Logger) (err error) {
	connecting, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if o.Archive != "" {
		return l.openArchive(ctx, o, log)
	}
	if l.conn, err = l.connect(connecting, o, log); err != nil {
		return err
	}
	if err := l.checkStream(connecting); err != nil {
		return err
	}
	l.store, err = eventstore.New(l.conn.Events(), eventstore.Options{Subjects: l.conn.Subjects(), Logger: log})
	return err
}

// openArchive restores an archive on a server of its own, in a directory that goes with this process, so that all that
// can be read and proved of a log can be of the archive.
func (l *logs) openArchive(ctx context.Context, o options, log *slog.Logger) error {
	file, err := os.Open(o.Archive)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if l.dir, err = os.MkdirTemp("", "loopbus-replay-"); err != nil {
		return err
	}
	if l.server, err = embedded.Start(embedded.Options{StoreDir: l.dir, InProcessOnly: true, Name: "replay",
		Logger: log}); err != nil {
		return err
	}
	l.conn, err = bus.Connect(ctx, bus.ConnOptions{InProcess: l.server, Name: "replay", Logger: log})
	if err != nil {
		return err
	}
	if err := streams.Setup(ctx, l.conn, streams.Options{}); err != nil {
		return err
	}
	if l.store, err = eventstore.New(l.conn.Events(), eventstore.Options{Logger: log}); err != nil {
		return err
	}
	if _, err := archive.Restore(ctx, l.conn, l.store, file); err != nil {
		return fmt.Errorf("%s: %w", o.Archive, err)
	}
	return nil
}

func (l *logs) connect(ctx context.Context, o options, log *slog.Logger) (conn *bus.Conn, err error) {
	if o.Store == "" {
		return o.Connection.Bus(ctx, "replay", log)
	}
	if l.server, err = openStore(o.Store, log); err != nil {
		return nil, err
	}
	return bus.Connect(ctx, bus.ConnOptions{InProcess: l.server, Name: "replay", Prefix: o.Connection.Prefix, Logger: log})
}

// openStore starts a server on a store that is there: the server itself would make a new one.
func openStore(dir string, log *slog.Logger) (*embedded.Server, error) {
	stream := filepath.Join(dir, server.JetStreamStoreDir, server.DEFAULT_GLOBAL_ACCOUNT, "streams", schemas.StreamEvents)
	if _, err := os.Stat(stream); err != nil {
		return nil, fmt.Errorf("%s is no store with logs of sessions: %w", dir, err)
	}
	s, err := embedded.Start(embedded.Options{StoreDir: dir, InProcessOnly: true, Name: "replay", Logger: log})
	if err != nil {
		return nil, fmt.Errorf("%w (if a runner has it, read from the runner's server with --nats)", err)
	}
	return s, nil
}

// checkStream says in plain words what is wrong where there are no logs to be found.
func (l *logs) checkStream(ctx context.Context) error {
	stream, err := l.conn.JetStream().Stream(ctx, schemas.StreamEvents)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return fmt.Errorf("there is no stream %s: no runner has ever used this server or account", schemas.StreamEvents)
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return fmt.Errorf("the server keeps no streams for this account: %w", err)
	case err != nil:
		return fmt.Errorf("look up stream %s: %w", schemas.StreamEvents, err)
	}
	want, have := l.conn.Subjects().Event("*"), stream.CachedInfo().Config.Subjects
	if !slices.Contains(have, want) {
		return fmt.Errorf("stream %s holds %v and not %s: another --prefix is needed", schemas.StreamEvents, have, want)
	}
	return nil
}

func (l *logs) close() {
	if l.conn != nil {
		l.conn.Close()
	}
	if l.server != nil {
		l.server.Shutdown()
	}
	if l.dir != "" {
		_ = os.RemoveAll(l.dir)
	}
}

// sessions returns what is known of every session, by name.
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
