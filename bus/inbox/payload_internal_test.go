package inbox

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/embedded"
	"github.com/loopbus/loopbus/bus/inbox/reader"
	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/schemas"
)

// keeping is a handler whose deliveries wait until free is closed, and send their command to got.
type keeping struct {
	free chan struct{}
	got  chan schemas.Command
}

func (h keeping) Deliver(ctx context.Context, cmd schemas.Command, _ func()) error {
	select {
	case <-h.free:
		h.got <- cmd
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (h keeping) Reject(context.Context, string, schemas.CommandRejected) error { return nil }
func (h keeping) Owns(context.Context, string) error                            { return nil }
func (h keeping) Absent(context.Context, string) bool                           { return false }
func (h keeping) Hold(ctx context.Context, _ string, _ func()) (context.Context, func(), error) {
	return ctx, func() {}, nil
}

// newInbox returns an inbox for one session at once, on a server of its own.
func newInbox(t *testing.T) (*bus.Conn, *Inbox) {
	t.Helper()
	server, err := embedded.Start(embedded.Options{Listen: "127.0.0.1:0", StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	c, err := bus.Connect(t.Context(), bus.ConnOptions{InProcess: server, Name: t.Name()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	if err := streams.Setup(t.Context(), c, streams.Options{Partitions: 2}); err != nil {
		t.Fatal(err)
	}
	in, err := New(c, Options{RunnerID: "r1", MaxSessions: 1})
	if err != nil {
		t.Fatal(err)
	}
	return c, in
}

// TestDroppedPayloadsAreRefetched sends many commands to one session and one command to each of many sessions, while
// only one session may be at work. Every command is delivered as it was sent, with its header.
func TestDroppedPayloadsAreRefetched(t *testing.T) {
	t.Parallel()
	c, in := newInbox(t)
	const size, each = 10 << 10, 30
	h := keeping{make(chan struct{}), make(chan schemas.Command)}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- in.Run(ctx, h) }()
	defer func() {
		stop()
		<-ended
	}()
	<-in.Ready()
	want := map[string]string{} // text by id
	for i := range each {
		for _, session := range []string{"one", fmt.Sprint("many-", i)} {
			id := fmt.Sprint(session, "-", i)
			want[id] = string(bytes.Repeat([]byte{byte('a' + i%26)}, size))
			msg := &nats.Msg{Subject: c.Subjects().Command(session, schemas.CommandPrompt), Data: []byte(want[id]),
				Header: nats.Header{"Nats-Msg-Id": {id}}}
			if _, err := c.JetStream().PublishMsg(t.Context(), msg); err != nil {
				t.Fatal(err)
			}
		}
	}
	until(t, "all are received", func() bool { return in.InFlight() == 2*each })
	close(h.free)
	got := map[string]string{}
	last := -1
	for range 2 * each {
		cmd := <-h.got
		got[cmd.ID] = cmd.Data.(*schemas.Prompt).Text
		if n := 0; cmd.Session == "one" {
			if _, err := fmt.Sscanf(cmd.ID, "one-%d", &n); err != nil || n != last+1 {
				t.Errorf("%s comes after %d", cmd.ID, last)
			}
			last = n
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("%d of %d commands are as they were sent", len(got), len(want))
	}
	until(t, "nothing is left", func() bool {
		inFlight, waiting := in.reader.Load()
		return inFlight == 0 && waiting == 0
	})
}

// A small payload is kept; a dropped one can be restored.
func TestBodyDropsALargePayload(t *testing.T) {
	t.Parallel()
	small, big := &body{data: make([]byte, smallPayload)}, &body{data: make([]byte, smallPayload+1)}
	headers := &body{header: nats.Header{"a": {string(make([]byte, smallPayload))}}}
	if small.DropPayload() || !big.DropPayload() || !headers.DropPayload() ||
		small.data == nil || big.data != nil || headers.header != nil {
		t.Errorf("small %+v, big %+v, headers %+v", small, big, headers)
	}
	big.restore(natsio.Stored{Data: []byte("again")})
	if big.dropped || string(big.data) != "again" {
		t.Errorf("read again: %+v", big)
	}
	small.restore(natsio.Stored{Data: []byte("other")})
	if len(small.data) != smallPayload {
		t.Error("what was kept was replaced")
	}
}

// A header of the largest size may have ten thousand names, which take much more memory than they have bytes.
func TestManyHeadersAreLarge(t *testing.T) {
	t.Parallel()
	many, few := nats.Header{}, nats.Header{}
	for i := range 11_000 {
		many[strconv.FormatInt(int64(i), 36)] = []string{""}
	}
	few["a"] = []string{strings.Repeat("x", largePayload/2)}
	if n := (&body{header: many}).size(); n < 1<<20 {
		t.Errorf("many headers count as %d bytes", n)
	}
	if n := (&body{header: few}).size(); n > largePayload {
		t.Errorf("a header counts as %d bytes", n)
	}
}

// unexpected is a handler that must not receive a rejection.
type unexpected struct {
	Handler
	t *testing.T
}

func (h unexpected) Reject(_ context.Context, session string, r schemas.CommandRejected) error {
	h.t.Errorf("recorded in the log of session %s: %+v", session, r)
	return nil
}

// TestForeignMessageThatIsGivenUpIsNotRecorded gives up a message that a server was made to send, because its runners
// were lost: it becomes a dead letter, and its sender has written nothing into the session's log.
func TestForeignMessageThatIsGivenUpIsNotRecorded(t *testing.T) {
	t.Parallel()
	_, in := newInbox(t)
	in.handler = unexpected{t: t}
	m := &reader.Message{Seq: 1, Session: "s1", Body: &body{
		subject: "agent.cmd.0.s1.prompt", header: nats.Header{jetstream.StreamHeader: {"AGENT_EVT"}}, data: []byte("x"),
	}}
	if err := (handler{in}).GiveUp(t.Context(), m, "its runners were lost"); err != nil || !m.Rejected {
		t.Errorf("given up: %v, rejected %v", err, m.Rejected)
	}
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for limit := time.Now().Add(time.Minute); !ok(); runtime.Gosched() {
		if time.Now().After(limit) {
			t.Fatal("never happened: ", what)
		}
	}
}

// TestOnlyWhatCannotBeDeliveredIsRemoved has the sweep believe that a command cannot be delivered, as if its sender had
// written the headers of a direct get's answer: the leader knows better.
func TestOnlyWhatCannotBeDeliveredIsRemoved(t *testing.T) {
	t.Parallel()
	c, in := newInbox(t)
	var err error
	if in.stream, err = c.JetStream().Stream(t.Context(), schemas.StreamCommands); err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{"agent.cmd.s1.prompt", "agent.cmd.s\x7f1.prompt"} {
		ack, err := c.JetStream().Publish(t.Context(), subject, []byte("hi"))
		if err == nil {
			err = in.remove(t.Context(), ack.Sequence)
		}
		if err != nil {
			t.Fatal(err)
		}
		_, err = in.stream.GetMsg(t.Context(), ack.Sequence)
		if found := err == nil; found != (subject == "agent.cmd.s1.prompt") {
			t.Errorf("%q is there: %v", subject, found)
		}
	}
}
