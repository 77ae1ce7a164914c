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

// connectTimeout bounds how long the server may take to say whether it has logs.
const connectTimeout = 5 * time.Second

// logs is where the sessions' logs are read from.
type logs struct {
	conn  *bus.Conn
	store *eventstore.Store
}

// withLogs connects to the server, or starts one on the store or for the archive, which nobody but this process can
// reach, and has do read the logs. Nothing is created but what goes with this process.
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

// withArchive restores an archive on a server of its own, in a directory that goes with this process, so that all that
// can be read and proved of a log can be of the archive.
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
