package client_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// connect returns a client with its own connection.
func connect(t testing.TB, url string) *client.Client {
	t.Helper()
	c, err := client.Connect(url, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// author writes the log of one session step by step, as a runner would.
type author struct {
	t       testing.TB
	c       *bus.Conn
	session string
	seq     uint64 // of the last event
	stream  uint64 // of the last message
	hash    string
	updates map[uint64]uint64 // number of the last update of each event
}

func newAuthor(t testing.TB, c *bus.Conn, session string) *author {
	return &author{t: t, c: c, session: session, updates: map[uint64]uint64{}}
}

// commit appends events in one message and returns the sequence of the first.
func (a *author) commit(data ...schemas.EventData) uint64 {
	a.t.Helper()
	first := a.seq + 1
	events := make([]schemas.Event, len(data))
	for i, d := range data {
		a.seq++
		events[i] = schemas.Event{Session: a.session, Seq: a.seq, Time: time.Unix(1, 0).UTC(), RunID: "r1",
			Source: "/loopbus/runner/author", PrevHash: a.hash, Data: d}
	}
	header, payload, err := schemas.EncodeCommit(events...)
	if err != nil {
		a.t.Fatal(err)
	}
	a.store(header, payload)
	return first
}

// store appends a message.
func (a *author) store(header nats.Header, payload []byte) {
	a.t.Helper()
	a.hash = schemas.Hash(header, payload)
	ack, err := a.c.Events().PublishMsg(bustest.Deadline(a.t), &nats.Msg{Subject: a.c.Subjects().Event(a.session),
		Header: header, Data: payload}, jetstream.WithExpectLastSequencePerSubject(a.stream), natsio.UntilLeader())
	if err != nil {
		a.t.Fatal(err)
	}
	a.stream = ack.Sequence
}

// payload stores an event's data as an object and returns its reference.
func (a *author) payload(d schemas.EventData) (ref string) {
	a.t.Helper()
	data, err := schemas.AppendData(nil, d)
	if err != nil {
		a.t.Fatal(err)
	}
	name := fmt.Sprintf("%x", sha256.Sum256(data))
	objects, err := a.c.Events().ObjectStore(bustest.Deadline(a.t), schemas.BucketBlobs)
	if err == nil {
		_, err = objects.PutBytes(bustest.Deadline(a.t), name, data)
	}
	if err != nil {
		a.t.Fatal(err)
	}
	return "nats://agent_blobs/" + name
}

// begin starts a reply and returns the sequence of its message_start.
func (a *author) begin() uint64 {
	a.t.Helper()
	return a.commit(&schemas.MessageStart{MessageID: fmt.Sprintf("m%d", a.seq+1), Role: schemas.RoleAssistant})
}

// end appends the message_end of the reply whose message_start has sequence start.
func (a *author) end(start uint64, text string) uint64 {
	a.t.Helper()
	return a.commit(&schemas.MessageEnd{MessageID: fmt.Sprintf("m%d", start), Message: schemas.AnyMessage{
		Message: &schemas.AssistantMessage{Content: schemas.Contents{schemas.Text{Text: text}}}}})
}

// say publishes the next update of a reply.
func (a *author) say(start uint64, text string) {
	a.t.Helper()
	a.updates[start]++
	a.publish(a.delta(start, a.updates[start], text))
}

func (a *author) delta(start, n uint64, text string) schemas.Update {
	return schemas.Update{Session: a.session, Event: start, N: n, Time: time.Unix(1, 0).UTC(), RunID: "r1",
		Source: "/loopbus/runner/author", Data: &schemas.MessageUpdate{MessageID: fmt.Sprintf("m%d", start),
			AssistantMessageEvents: []schemas.StreamEvent{{Type: schemas.StreamTextDelta, Delta: text}}}}
}

// publish publishes an update and waits until it is stored.
func (a *author) publish(u schemas.Update) {
	a.t.Helper()
	header, payload, err := schemas.EncodeUpdate(u)
	if err != nil {
		a.t.Fatal(err)
	}
	_, err = a.c.Events().PublishMsg(bustest.Deadline(a.t), &nats.Msg{Subject: a.c.Subjects().LiveUpdate(a.session),
		Header: header, Data: payload}, natsio.UntilLeader())
	if err != nil {
		a.t.Fatal(err)
	}
}

// describe returns an item as one line: "7 message_start" or "7.2 text".
func describe(i client.Item) string {
	if u := i.Update; u != nil {
		text := i.Delta()
		if d, ok := u.Data.(*schemas.ToolExecutionUpdate); ok {
			text = d.PartialResult.Content.JoinText()
		}
		return fmt.Sprintf("%d.%d %s", u.Event, u.N, text)
	}
	return fmt.Sprintf("%d %s", i.Event.Seq, i.Event.Type())
}

// watching is a loop over Session.Watch in its own goroutine, read step by step.
type watching struct {
	t     testing.TB
	items chan string
	err   error // once items is closed
	stop  func()
}

// watch starts a loop that ends with the test.
func watch(t testing.TB, s *client.Session, from uint64) *watching {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	w := &watching{t: t, items: make(chan string), stop: cancel}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer close(w.items)
		for item, err := range s.Watch(ctx, from) {
			if err != nil {
				w.err = err
				return
			}
			select {
			case w.items <- describe(item):
			case <-ctx.Done():
				return
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return w
}

// want reads the next items and compares them.
func (w *watching) want(items ...string) {
	w.t.Helper()
	for _, want := range items {
		select {
		case got, ok := <-w.items:
			if !ok {
				w.t.Fatalf("the loop ended with %v, want %q", w.err, want)
			}
			if got != want {
				w.t.Fatalf("got %q, want %q", got, want)
			}
		case <-bustest.Deadline(w.t).Done():
			w.t.Fatalf("nothing came, want %q", want)
		}
	}
}

// fails waits for the end of the loop and returns its error.
func (w *watching) fails() error {
	w.t.Helper()
	select {
	case got, ok := <-w.items:
		if ok {
			w.t.Fatalf("got %q, want an error", got)
		}
	case <-bustest.Deadline(w.t).Done():
		w.t.Fatal("the loop did not end")
	}
	return w.err
}
