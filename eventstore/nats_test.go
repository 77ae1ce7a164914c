package eventstore_test

import (
	"bytes"
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// startServer runs a JetStream server on loopback. Port -1 lets it choose.
func startServer(t testing.TB, dir string, port int) *server.Server {
	t.Helper()
	s := bustest.NATS(t, &server.Options{Port: port, JetStream: true, StoreDir: dir})
	return s
}

// connect connects as the store wants it: no reconnect buffer.
func connect(t testing.TB, url string, opts ...nats.Option) jetstream.JetStream {
	t.Helper()
	opts = append([]nats.Option{nats.ReconnectBufSize(-1), nats.MaxReconnects(-1),
		nats.ReconnectWait(10 * time.Millisecond)}, opts...)
	nc, err := nats.Connect(url, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// createStreams makes what package bus makes in production.
func createStreams(t testing.TB, js jetstream.JetStream) {
	t.Helper()
	ctx := t.Context()
	_, err := js.CreateStream(ctx, jetstream.StreamConfig{
		Name: schemas.StreamEvents, Subjects: []string{"agent.evt.*"}, Retention: jetstream.LimitsPolicy,
		Storage: jetstream.FileStorage, AllowDirect: true,
		RePublish: &jetstream.RePublish{Source: "agent.evt.*", Destination: "agent.live.{{wildcard(1)}}.event"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: schemas.BucketSnapshots}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: schemas.BucketBlobs}); err != nil {
		t.Fatal(err)
	}
}

func newStore(t testing.TB, js jetstream.JetStream, o eventstore.Options) *eventstore.Store {
	t.Helper()
	if o.Logger == nil {
		o.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	s, err := eventstore.New(js, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// newJetStream returns a store on a server of its own, and the connection it uses.
func newJetStream(t testing.TB, o eventstore.Options) (*eventstore.Store, jetstream.JetStream) {
	t.Helper()
	js := connect(t, startServer(t, t.TempDir(), -1).ClientURL())
	createStreams(t, js)
	return newStore(t, js, o), js
}

// event makes a plausible event; source tells writers apart.
func event(session string, seq uint64, source string) schemas.Event {
	return schemas.Event{
		Session: session, Seq: seq, Source: source, RunID: "r1", TurnID: "t1",
		Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(time.Duration(seq) * time.Second),
		Data: &schemas.TurnStart{TurnIndex: int(seq)},
	}
}

func ctxOf(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// syncBuffer is a log that a test reads while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
