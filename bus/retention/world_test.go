package retention_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/queries/index"
	"github.com/loopbus/loopbus/bus/retention"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// world is a bus without a runner.
type world struct {
	t     *testing.T
	conn  *bus.Conn
	store *eventstore.Store
}

func newWorld(t *testing.T) *world {
	c := bustest.New(t)
	store, err := eventstore.New(c.Events(), eventstore.Options{BlobThreshold: 4 << 10})
	if err != nil {
		t.Fatal(err)
	}
	return &world{t, c, store}
}

func (w *world) deleter(o retention.Options) *retention.Deleter {
	o.Store = w.store
	return retention.NewDeleter(w.conn, o)
}

// index opens the index of sessions until the test ends.
func (w *world) index() *index.Index {
	ix := index.Open(w.conn, index.Options{Logs: w.store, Setup: func(ctx context.Context) error {
		return streams.Setup(ctx, w.conn, streams.Options{})
	}, Check: 50 * time.Millisecond, Grace: time.Millisecond})
	w.t.Cleanup(ix.Close)
	return ix
}

// open opens a log as a runner does that knows of deletions.
func (w *world) open(session string) (*eventstore.Log, error) {
	o := eventstore.Options{BlobThreshold: 4 << 10, InProgress: w.deleter(retention.Options{}).InProgress}
	store, err := eventstore.New(w.conn.Events(), o)
	if err != nil {
		w.t.Fatal(err)
	}
	return store.Open(bustest.Deadline(w.t), session)
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// log appends events to a session's log, with data that is kept in the object store.
func (w *world) log(session string, data ...schemas.EventData) *eventstore.Log {
	w.t.Helper()
	l, err := w.open(session)
	w.must(err)
	next := uint64(1)
	for e, err := range l.Read(bustest.Deadline(w.t), 1) {
		w.must(err)
		next = e.Seq + 1
	}
	for _, d := range data {
		w.must(l.Append(bustest.Deadline(w.t), schemas.Event{Session: session, Seq: next, Time: time.Now(), Source: "/t",
			Data: d}))
		next++
	}
	w.must(l.Flush(bustest.Deadline(w.t)))
	return l
}

func big() *schemas.ErrorEvent {
	return &schemas.ErrorEvent{Code: "big", Message: strings.Repeat("x", 8<<10)}
}

func small() *schemas.ErrorEvent { return &schemas.ErrorEvent{Code: "small", Message: "x"} }

func (w *world) publish(subject string, data string) {
	w.t.Helper()
	_, err := w.conn.JetStream().PublishMsg(bustest.Deadline(w.t), &nats.Msg{Subject: subject, Data: []byte(data)})
	w.must(err)
}

// fill gives a session at rest something in every place that there is.
func (w *world) fill(session string) {
	w.t.Helper()
	l := w.log(session, small(), big(), small())
	w.must(l.SaveSnapshot(bustest.Deadline(w.t), 7, 3, []byte(strings.Repeat("state", 20<<10))))
	w.entry(session, 1)
	s := w.conn.Subjects()
	w.publish(s.Tool("bash", session, "c9"), `{}`)
	w.publish(s.LiveUpdate(session), `{}`)
	w.publish(s.Dead(schemas.StreamCommands, session), `{}`)
	w.publish(s.Dead(schemas.StreamTools, session), `{}`)
}

// entry writes what the index has of a session, as the fold of a message of the stream.
func (w *world) entry(session string, stream uint64) {
	w.publish("$KV.agent_sessions.v1."+session, fmt.Sprintf(`{"summary":{"session":%q},"stream":%d}`, session, stream))
}

// places are the streams, with all that is a session's in them.
func (w *world) places(session string) (all []string) {
	w.t.Helper()
	names := w.conn.JetStream().StreamNames(bustest.Deadline(w.t))
	for name := range names.Name() {
		stream, err := w.conn.JetStream().Stream(bustest.Deadline(w.t), name)
		w.must(err)
		info, err := stream.Info(bustest.Deadline(w.t), jetstream.WithSubjectFilter(">"))
		w.must(err)
		for subject, n := range info.State.Subjects {
			tokens := strings.Split(subject, ".")
			if object, err := base64.URLEncoding.DecodeString(tokens[len(tokens)-1]); err == nil {
				tokens = append(tokens, strings.FieldsFunc(string(object), func(r rune) bool { return r == '/' || r == '.' })...)
			}
			if !slices.Contains(tokens, session) {
				continue
			}
			if last, err := stream.GetLastMsgForSubject(bustest.Deadline(w.t), subject); err == nil &&
				last.Header.Get("KV-Operation") != "" {
				continue // the mark of a deleted key, which is deleted too
			}
			all = append(all, fmt.Sprintf("%s %s %d", name, subject, n))
		}
	}
	slices.Sort(all)
	return all
}

// chunks is how many messages with parts of objects there are.
func (w *world) chunks() (n int) {
	w.t.Helper()
	stream, err := w.conn.JetStream().Stream(bustest.Deadline(w.t), "OBJ_"+schemas.BucketBlobs)
	w.must(err)
	info, err := stream.Info(bustest.Deadline(w.t), jetstream.WithSubjectFilter("$O."+schemas.BucketBlobs+".C.>"))
	w.must(err)
	return len(info.State.Subjects)
}

var errCrash = errors.New("the process dies here")
