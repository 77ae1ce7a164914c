package client_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/schemas"
)

// another deletes the log. What the author appends then begins another one under the same session id.
func (a *author) another() {
	a.t.Helper()
	events, err := a.c.JetStream().Stream(bustest.Deadline(a.t), schemas.StreamEvents)
	if err == nil {
		err = events.Purge(bustest.Deadline(a.t), jetstream.WithPurgeSubject(a.c.Subjects().Event(a.session)))
	}
	if err != nil {
		a.t.Fatal(err)
	}
	a.seq, a.stream, a.hash = 0, 0, ""
}

// damaged checks that an error says that events are stored after an event that they do not follow.
func damaged(t *testing.T, err error, what string) {
	t.Helper()
	if !errors.Is(err, client.ErrDamaged) || !strings.Contains(err.Error(), what) {
		t.Errorf("got %v, want %s", err, what)
	}
}

// A session is deleted and begins again while it is followed. The first commit of the new log has events that were
// yielded already, and more. It is not the rest of the old log.
func TestAnotherLogEndsTheLoop(t *testing.T) {
	t.Parallel()
	for old := range 3 {
		old++
		what := fmt.Sprintf("events 1 to 3 are stored after event %d", old)
		t.Run(fmt.Sprintf("after %d events", old), func(t *testing.T) {
			t.Parallel()
			_, a, s := start(t)
			w, now := watch(t, s, 1), watch(t, s, 2)
			for i := range old {
				a.commit(&schemas.QueueUpdate{})
				w.want(fmt.Sprintf("%d queue_update", i+1))
				if i > 0 {
					now.want(fmt.Sprintf("%d queue_update", i+1))
				}
			}
			run, err := s.Prompt(bustest.Deadline(t), client.Text("go")) // is searched for after the old log's last event
			if err != nil {
				t.Fatal(err)
			}
			a.another()
			a.commit(&schemas.AgentStart{}, &schemas.TurnStart{}, &schemas.TurnEnd{})
			damaged(t, w.fails(), what)
			if old > 1 {
				damaged(t, now.fails(), what)
			}
			_, err = run.Wait(bustest.Deadline(t))
			damaged(t, err, what)
			watch(t, s, 1).want("1 agent_start", "2 turn_start", "3 turn_end")
		})
	}
}

// A live message that follows the last event, but not the last message, may belong to another log whose beginning was
// missed.
func TestAnotherLogWhoseBeginningWasMissed(t *testing.T) {
	t.Parallel()
	server, a, _ := start(t)
	c := connect(t, server.ClientURL())
	c.Keep(50)
	arrived := func() {
		t.Helper()
		if err := c.NATS().FlushWithContext(bustest.Deadline(t)); err != nil {
			t.Fatal(err)
		}
	}
	checks := make(chan *nats.Msg, 64)
	if _, err := c.NATS().ChanSubscribe("$JS.API.DIRECT.GET.AGENT_EVT.agent.evt.s1", checks); err != nil {
		t.Fatal(err)
	}
	arrived()
	w := watch(t, c.Session("s1"), 1)
	m := a.begin()
	w.want("1 message_start")
	for range 3 { // the next check, which would find the new log, is two seconds away
		bustest.Within(t, checks)
	}
	for range 60 { // more than the client queues
		a.say(m, "x")
	}
	arrived()
	a.another()
	a.commit(&schemas.AgentStart{}) // not queued
	arrived()
	read := 0
	for item := range w.items {
		if !strings.HasPrefix(item, "1.") {
			t.Fatalf("got %q of another log", item)
		}
		if read++; read == 20 { // now there is room
			for range 3 {
				a.commit(&schemas.TurnStart{}, &schemas.TurnEnd{})
			}
			arrived()
		}
	}
	damaged(t, w.err, "events 1 to 1 are stored after event 1")
}

// A commit that arrives twice, live and as it is stored, is not another log. Nor is one that is stored after a foreign
// message.
func TestACommitArrivesTwice(t *testing.T) {
	t.Parallel()
	_, a, s := start(t)
	_, err := a.c.NATS().Subscribe("agent.live.s1.event", func(m *nats.Msg) {
		if m.Header.Get("Again") == "" {
			m.Header.Set("Again", "1")
			_ = a.c.NATS().PublishMsg(&nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data}) // not at the end
		}
	})
	if err == nil {
		err = a.c.NATS().Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	w := watch(t, s, 2) // inside of the first commit
	for n := uint64(1); n < 30; n += 3 {
		a.commit(&schemas.TurnStart{}, &schemas.QueueUpdate{}, &schemas.TurnEnd{})
		if n > 1 {
			w.want(fmt.Sprintf("%d turn_start", n))
		}
		w.want(fmt.Sprintf("%d queue_update", n+1), fmt.Sprintf("%d turn_end", n+2))
		ack, err := a.c.JetStream().Publish(bustest.Deadline(t), "agent.evt.s1", []byte("not of the log"))
		if err != nil {
			t.Fatal(err)
		}
		a.stream = ack.Sequence
	}
}

// A message with the header of a status, and without payload, is foreign like any other.
func TestAStatusInALogIsForeign(t *testing.T) {
	t.Parallel()
	_, a, s := start(t)
	a.commit(&schemas.TurnStart{})
	for _, code := range []string{"409", "503"} {
		status := nats.NewMsg("agent.evt.s1")
		status.Header.Set("Status", code)
		ack, err := a.c.JetStream().PublishMsg(bustest.Deadline(t), status)
		if err != nil {
			t.Fatal(err)
		}
		a.stream = ack.Sequence
		watch(t, s, 1).want("1 turn_start") // to the end of the log
	}
	a.commit(&schemas.TurnEnd{})
	watch(t, s, 1).want("1 turn_start", "2 turn_end")
}

// The payload of a commit's second event cannot be fetched. The follower reads the commit again, until it can, or
// until another log has begun.
func TestACommitIsReadAgain(t *testing.T) {
	t.Parallel()
	for _, same := range []bool{true, false} {
		for _, live := range []bool{true, false} {
			t.Run(fmt.Sprintf("live %t, the same %t", live, same), func(t *testing.T) {
				t.Parallel()
				c, current := bustest.Behind(t, "OBJ_"+schemas.BucketBlobs)
				a := newAuthor(t, c, "s1")
				reads := make(chan *nats.Msg, 64)
				_, err := c.NATS().ChanSubscribe("$JS.API.CONSUMER.CREATE."+schemas.StreamEvents+".>", reads)
				if err == nil {
					err = c.NATS().Flush()
				}
				if err != nil {
					t.Fatal(err)
				}
				impatient, err := client.Connect(c.NATS().ConnectedUrl(), client.Options{RequestTimeout: 2 * time.Second})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(impatient.Close)
				w := watch(t, impatient.Session("s1"), 1)
				if live {
					a.commit(&schemas.AgentStart{})
					w.want("1 agent_start")
				}
				begun := a.beginWithPayload(&schemas.ErrorEvent{Code: "big", Message: "a payload"})
				w.want(fmt.Sprintf("%d turn_start", begun))
				if !same {
					a.another()
					a.commit(&schemas.AgentStart{}, &schemas.TurnStart{}, &schemas.TurnEnd{})
					damaged(t, w.fails(), fmt.Sprintf("events 1 to 3 are stored after event %d", begun))
					return
				}
				for range 2 { // at the beginning, and after the payload was given up
					bustest.Within(t, reads)
				}
				current()
				a.commit(&schemas.TurnEnd{})
				w.want(fmt.Sprintf("%d error", begun+1), fmt.Sprintf("%d turn_end", begun+2))
			})
		}
	}
}

// beginWithPayload appends a commit of a turn_start and an event whose data is an object.
func (a *author) beginWithPayload(d schemas.EventData) (first uint64) {
	a.t.Helper()
	begin := schemas.Event{Session: a.session, Seq: a.seq + 1, Source: "/x", Data: &schemas.TurnStart{}}
	large := schemas.Event{Session: a.session, Seq: a.seq + 2, Source: "/x", Data: d}
	var commit schemas.Commit
	if err := errors.Join(commit.Add(&begin, []byte("{}"), ""), commit.Add(&large, nil, a.payload(d))); err != nil {
		a.t.Fatal(err)
	}
	a.store(commit.Header(a.hash), commit.Payload())
	a.seq += 2
	return begin.Seq
}
