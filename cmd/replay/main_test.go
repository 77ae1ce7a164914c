package main

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/embedded"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// atOnce is how many tests run at once: one waits for seconds, and the others need not wait for it.
const atOnce = 24

func TestMain(m *testing.M) { bustest.Run(m, atOnce, func(code int) int { return code }) }

// world is a server with logs on it.
type world struct {
	t      testing.TB
	dir    string
	server *embedded.Server
	conn   *bus.Conn
	store  *eventstore.Store
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir()}
	w.start()
	if err := streams.Setup(w.ctx(), w.conn, streams.Options{}); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) start() {
	w.t.Helper()
	var err error
	if w.server, err = embedded.Start(embedded.Options{StoreDir: w.dir}); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(w.server.Shutdown)
	if w.conn, err = bus.Connect(w.ctx(), bus.ConnOptions{InProcess: w.server, Name: w.t.Name()}); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(w.conn.Close)
	if w.store, err = eventstore.New(w.conn.Events(), eventstore.Options{}); err != nil {
		w.t.Fatal(err)
	}
}

// stop ends the server, so that its store is free.
func (w *world) stop() {
	w.conn.Close()
	w.server.Shutdown()
}

func (w *world) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	w.t.Cleanup(cancel)
	return ctx
}

func (w *world) open(session string) *eventstore.Log {
	w.t.Helper()
	log, err := w.store.Open(w.ctx(), session)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(log.Close)
	return log
}

// result is what one invocation came to.
type result struct {
	code           int
	stdout, stderr string
}

func invoke(t testing.TB, env map[string]string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	var stdout, stderr strings.Builder
	code := run(ctx, args, outside(env, &stdout, &stderr))
	return result{code, stdout.String(), stderr.String()}
}

// outside is what a process would have.
func outside(env map[string]string, stdout, stderr io.Writer) *cli.IO {
	return &cli.IO{Stdin: strings.NewReader(""), Stdout: stdout, Stderr: stderr,
		Getenv: func(k string) string { return env[k] }}
}

// replay invokes on the world's server.
func (w *world) replay(args ...string) result {
	w.t.Helper()
	return invoke(w.t, map[string]string{"LOOPBUS_NATS": w.server.ClientURL()}, args...)
}

// begun is when the logs of the tests begin.
var begun = time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)

// writer appends events as a runner would, one second apart.
type writer struct {
	w     *world
	log   *eventstore.Log
	event schemas.Event // the one before

	// before has them stored in the form of before commits.
	before bool
	stream uint64 // sequence of the last message
	hash   string // and its hash
}

func (w *world) writer(session string) *writer {
	return &writer{w: w, log: w.open(session), event: schemas.Event{
		Session: session, Source: "/loopbus/runner/r1", RunID: "r1", TurnID: "t2", Time: begun,
	}}
}

func (wr *writer) append(all ...schemas.EventData) {
	wr.w.t.Helper()
	for _, data := range all {
		wr.event.Seq++
		wr.event.Time = wr.event.Time.Add(time.Second)
		wr.event.Data = data
		if wr.before {
			wr.publish(wr.event)
			continue
		}
		if err := wr.log.Append(wr.w.ctx(), wr.event); err != nil {
			wr.w.t.Fatal(err)
		}
	}
	if err := wr.log.Flush(wr.w.ctx()); err != nil {
		wr.w.t.Fatal(err)
	}
}

// publish stores one event in a message.
func (wr *writer) publish(e schemas.Event) {
	wr.w.t.Helper()
	e.PrevHash = wr.hash
	header, payload, err := schemas.EncodeEvent(e)
	if err != nil {
		wr.w.t.Fatal(err)
	}
	wr.hash = storedHash(header, payload)
	if header[schemas.HeaderDataRef] != nil {
		payload = nil
	}
	m := &nats.Msg{Subject: wr.w.conn.Subjects().Event(e.Session), Header: header, Data: payload}
	ack, err := wr.w.conn.JetStream().PublishMsg(wr.w.ctx(), m, jetstream.WithExpectLastSequencePerSubject(wr.stream))
	if err != nil {
		wr.w.t.Fatal(err)
	}
	wr.stream = ack.Sequence
}
