package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/bus/embedded"
	"github.com/loopbus/loopbus/schemas"
)

// start returns a server with the streams of loopbus, an author of session s1, and a client's handle of that session.
func start(t *testing.T) (*embedded.Server, *author, *client.Session) {
	t.Helper()
	server, c := bustest.Small(t)
	return server, newAuthor(t, c, "s1"), connect(t, server.ClientURL()).Session("s1")
}

func TestWatchFromBeginningAndLive(t *testing.T) {
	t.Parallel()
	_, a, s := start(t)
	a.commit(&schemas.AgentStart{}, &schemas.TurnStart{})
	w := watch(t, s, 1)
	w.want("1 agent_start", "2 turn_start")
	m := a.begin()
	a.say(m, "one ")
	a.say(m, "two")
	w.want("3 message_start", "3.1 one ", "3.2 two")
	a.end(m, "one two")
	a.commit(&schemas.TurnEnd{}, &schemas.AgentEnd{})
	w.want("4 message_end", "5 turn_end", "6 agent_end")
}

func TestWatchBeforeTheSessionBegins(t *testing.T) {
	t.Parallel()
	_, a, s := start(t)
	w := watch(t, s, 1)
	a.commit(&schemas.AgentStart{})
	w.want("1 agent_start")
}

func TestWatchBeginsInsideOfACommit(t *testing.T) {
	t.Parallel()
	_, a, s := start(t)
	a.commit(&schemas.AgentStart{}, &schemas.TurnStart{}, &schemas.TurnEnd{})
	watch(t, s, 2).want("2 turn_start", "3 turn_end")
	w := watch(t, s, 5)
	a.commit(&schemas.TurnStart{}, &schemas.TurnEnd{}, &schemas.AgentEnd{})
	w.want("5 turn_end", "6 agent_end")
}

// A viewer that joins late receives all updates of the message so far, also if the message's start event is before
// from.
func TestLateJoin(t *testing.T) {
	t.Parallel()
	for name, from := range map[string]uint64{"from the first event": 1, "from the next one": 3, "from now on": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, a, s := start(t)
			over := a.begin()
			a.say(over, "over")
			a.end(over, "over")
			m := a.begin()
			a.say(m, "one ")
			a.say(m, "two ")
			w := watch(t, s, from)
			switch from {
			case 1:
				w.want("1 message_start", "2 message_end", "3 message_start")
			case 3:
				w.want("3 message_start")
			}
			w.want("3.1 one ", "3.2 two ")
			a.say(m, "three")
			w.want("3.3 three")
			a.end(m, "one two three")
			w.want("4 message_end")
		})
	}
}

// A viewer begins at an event that its server does not have yet, since a replica that is behind may answer. A reply
// that is in progress there may have ended for the viewer.
func TestNoUpdatesBeforeTheFirstEvent(t *testing.T) {
	t.Parallel()
	server, a, s := start(t)
	m := a.begin()
	a.say(m, "stored before")
	nc, err := nats.Connect(server.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	asked, err := nc.SubscribeSync("$JS.API.DIRECT.GET.AGENT_EVT.agent.evt.s1")
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	w := watch(t, s, 4)
	if _, err := asked.NextMsg(10 * time.Second); err != nil { // it has read what is stored
		t.Fatal(err)
	}
	a.say(m, "live before")
	a.end(m, "stored before, live before")
	m = a.begin()
	a.say(m, "one ")
	w.want("3.1 one ")
	a.say(m, "two")
	a.end(m, "one two")
	w.want("3.2 two", "4 message_end")
}

// If the server has dropped the first updates of a message, the follower yields none of it before its message_end.
func TestLateJoinAfterUpdatesWereDropped(t *testing.T) {
	t.Parallel()
	_, a, s := start(t)
	m := a.begin()
	a.updates[m] = 5
	a.say(m, "six")
	w := watch(t, s, 1)
	w.want("1 message_start")
	a.say(m, "seven")
	a.end(m, "all of it")
	w.want("2 message_end")
}

func TestUpdatesOfToolsReplaceOneAnother(t *testing.T) {
	t.Parallel()
	_, a, s := start(t)
	call := a.commit(&schemas.ToolExecutionStart{ToolCallID: "x", ToolName: "t", Args: []byte("{}")},
		&schemas.ToolExecutionStart{ToolCallID: "y", ToolName: "t", Args: []byte("{}")})
	partial := func(event, n uint64, second int, text string) {
		u := a.delta(event, n, "")
		u.Time = u.Time.Add(time.Duration(second) * time.Second)
		u.Data = &schemas.ToolExecutionUpdate{Call: schemas.NewCallKey(event), PartialResult: schemas.TextResult(text)}
		a.publish(u)
	}
	w := watch(t, s, 1)
	w.want("1 tool_execution_start", "2 tool_execution_start")
	partial(call, 1, 1, "a")
	partial(call, 3, 2, "c")
	partial(call, 2, 1, "b, late")
	partial(call+1, 1, 2, "of the other")
	partial(call, 1, 5, "executed again")
	w.want("1.1 a", "1.3 c", "2.1 of the other", "1.1 executed again")
	a.commit(&schemas.ToolExecutionEnd{Call: schemas.NewCallKey(call), Result: schemas.TextResult("end")})
	partial(call, 2, 6, "too late")
	partial(call+1, 2, 6, "still at work")
	w.want("3 tool_execution_end", "2.2 still at work")
}

// Every client with the permissions of a worker can publish on the subject of updates.
func TestForgedUpdatesDoNothing(t *testing.T) {
	t.Parallel()
	_, a, s := start(t)
	w := watch(t, s, 1)
	m := a.begin()
	w.want("1 message_start")
	a.publish(a.delta(m+100, 1, "of an event to come"))
	a.publish(schemas.Update{Session: "s1", Event: m, N: 1, Source: "/x", Data: a.delta(m, 1, "").Data})
	other := a.delta(m, 1, "of another session")
	other.Session = "s2"
	header, payload, err := schemas.EncodeUpdate(other)
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range [][]byte{payload, []byte("{"), nil} {
		if err := a.c.NATS().PublishMsg(&nats.Msg{Subject: "agent.live.s1.update", Header: header, Data: data}); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.c.NATS().Publish("agent.live.s1.event", []byte("[]")); err != nil {
		t.Fatal(err)
	}
	if err := a.c.NATS().FlushWithContext(bustest.Deadline(t)); err != nil {
		t.Fatal(err)
	}
	a.updates[m] = 1
	a.say(m, "two")
	w.want("1.1 ", "1.2 two")
}

// A client that may read anything can have the server answer to a subject that viewers listen on. Viewers must yield
// what the log has.
func TestForgedEventsDoNothing(t *testing.T) {
	t.Parallel()
	_, a, s := start(t)
	newAuthor(t, a.c, "s2").commit(&schemas.AgentStart{}, &schemas.TurnStart{}, &schemas.TurnEnd{})
	w := watch(t, s, 1)
	a.commit(&schemas.AgentStart{})
	w.want("1 agent_start")
	const live = "agent.live.s1.event"
	for _, m := range []*nats.Msg{
		{Subject: "$JS.API.DIRECT.GET.AGENT_EVT.agent.evt.s2", Reply: live},
		{Subject: "$JS.API.STREAM.INFO.AGENT_EVT", Reply: live},
		{Subject: live, Data: []byte("x"), Header: nats.Header{"Nats-Sequence": {"900"}}},
		{Subject: live, Data: []byte("x"), Header: nats.Header{"Nats-Sequence": {"901"}, "Nats-Stream": {"AGENT_EVT"},
			schemas.HeaderCommit: {"v2 2-2"}}},
	} {
		if err := a.c.NATS().PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.c.NATS().FlushWithContext(bustest.Deadline(t)); err != nil {
		t.Fatal(err)
	}
	a.commit(&schemas.TurnStart{}, &schemas.TurnEnd{})
	w.want("2 turn_start", "3 turn_end")
}

func TestDataInTheObjectStore(t *testing.T) {
	t.Parallel()
	_, a, s := start(t)
	big := strings.Repeat("x", 300<<10)
	there := a.payload(&schemas.ErrorEvent{Code: "big", Message: big})
	for i, ref := range []string{there, "nats://agent_blobs/" + strings.Repeat("0", 64)} {
		var c schemas.Commit
		e := schemas.Event{Session: "s1", Seq: uint64(i + 1), Source: "/x", Data: &schemas.ErrorEvent{}}
		if err := c.Add(&e, nil, ref); err != nil {
			t.Fatal(err)
		}
		a.store(c.Header(a.hash), c.Payload())
	}
	var got []schemas.Event
	for e, err := range s.History(bustest.Deadline(t), 1) {
		if err != nil {
			if !errors.Is(err, client.ErrDamaged) {
				t.Errorf("an object that is not there: %v", err)
			}
			break
		}
		got = append(got, e)
	}
	if len(got) != 1 || got[0].Data.(*schemas.ErrorEvent).Message != big {
		t.Errorf("got %d events", len(got))
	}
}

func TestHistoryEndsAtTheLastEvent(t *testing.T) {
	t.Parallel()
	_, a, s := start(t)
	const commits = 200 // several batches
	for range commits {
		a.commit(&schemas.TurnStart{}, &schemas.TurnEnd{})
	}
	next := uint64(7)
	for e, err := range s.History(bustest.Deadline(t), next) {
		if err != nil || e.Seq != next {
			t.Fatalf("got event %d, %v, want %d", e.Seq, err, next)
		}
		next++
	}
	if next != 2*commits+1 {
		t.Errorf("ended before event %d", next)
	}
	for e, err := range s.History(bustest.Deadline(t), next) {
		t.Errorf("after the last event: %d, %v", e.Seq, err)
	}
}

func TestDamageEndsTheLoop(t *testing.T) {
	t.Parallel()
	_, a, s := start(t)
	a.commit(&schemas.AgentStart{})
	w := watch(t, s, 1)
	w.want("1 agent_start")
	a.seq++ // leave a gap in the sequence
	a.commit(&schemas.AgentEnd{})
	if err := w.fails(); !errors.Is(err, client.ErrDamaged) || !strings.Contains(err.Error(), "session s1 after event 1") {
		t.Errorf("got %v", err)
	}
}

// A follower that starts behind a gap misses nothing, so it follows, as the runner does that has a snapshot from there.
func TestAGapBeforeTheFirstEvent(t *testing.T) {
	t.Parallel()
	_, a, s := start(t)
	a.commit(&schemas.AgentStart{})
	a.seq += 3 // 2 to 4 are lost
	a.commit(&schemas.TurnStart{}, &schemas.TurnEnd{})
	from5, from6 := watch(t, s, 5), watch(t, s, 6)
	from5.want("5 turn_start", "6 turn_end")
	from6.want("6 turn_end")
	a.commit(&schemas.AgentEnd{})
	from5.want("7 agent_end")
	from6.want("7 agent_end")
	if err := watch(t, s, 4).fails(); !errors.Is(err, client.ErrDamaged) {
		t.Errorf("from an event that is lost: %v", err)
	}
}

func TestContextEndsTheLoop(t *testing.T) {
	t.Parallel()
	_, a, s := start(t)
	a.commit(&schemas.AgentStart{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got []string
	for item, err := range s.Watch(ctx, 1) {
		if err != nil {
			got = append(got, fmt.Sprint(errors.Is(err, context.Canceled)))
			continue
		}
		got = append(got, describe(item))
		cancel()
	}
	if len(got) != 2 || got[1] != "true" {
		t.Errorf("got %q", got)
	}
}

func TestClosedConnectionEndsTheLoop(t *testing.T) {
	t.Parallel()
	server, a, _ := start(t)
	c := connect(t, server.ClientURL())
	a.commit(&schemas.AgentStart{})
	w := watch(t, c.Session("s1"), 1)
	w.want("1 agent_start")
	c.Close()
	if err := w.fails(); !errors.Is(err, nats.ErrConnectionClosed) {
		t.Errorf("got %v", err)
	}
}

// History ends with an error if the connection is closed for good.
func TestClosedConnectionEndsReading(t *testing.T) {
	t.Parallel()
	server, a, _ := start(t)
	c := connect(t, server.ClientURL())
	a.commit(&schemas.AgentStart{})
	c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, err := c.Session("s1").Prompt(ctx, client.Text("go")); !errors.Is(err, nats.ErrConnectionClosed) {
		t.Errorf("the end of the log, for a prompt: %v", err)
	}
	for _, err := range c.Session("s1").History(ctx, 1) {
		if !errors.Is(err, nats.ErrConnectionClosed) {
			t.Errorf("the log: %v", err)
		}
	}
}

func TestIllegalSession(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t)
	c := connect(t, server.ClientURL())
	for _, id := range []string{"", "a.b", "*", ">"} {
		s := c.Session(id)
		if _, err := s.Prompt(t.Context(), client.Text("x")); !errors.Is(err, schemas.ErrSubject) {
			t.Errorf("prompt to %q: %v", id, err)
		}
		for _, err := range s.Watch(t.Context(), 1) {
			if !errors.Is(err, schemas.ErrSubject) {
				t.Errorf("watch of %q: %v", id, err)
			}
		}
	}
}

// Whoever executes tools may publish updates without an end. A watcher gets no more than a reply may have, of a message
// only what is called as it is, and of a call nothing that is a message's.
func TestUpdatesWithoutAnEnd(t *testing.T) {
	t.Parallel()
	_, a, s := start(t)
	m := a.begin()
	call := a.commit(&schemas.ToolExecutionStart{ToolCallID: "t1", ToolName: "echo", Args: []byte("{}")})
	foreign := a.delta(m, 1, "of another message")
	foreign.Data.(*schemas.MessageUpdate).MessageID = "m77"
	piece := strings.Repeat("x", 512<<10)
	const most = 32 << 20 / (512 << 10)
	got := 0
	for item, err := range s.Watch(bustest.Deadline(t), 1) {
		switch {
		case err != nil:
			t.Fatal(err)
		case item.Event != nil && item.Event.Seq == call:
			a.publish(foreign)
			a.publish(a.delta(call, 1, "of a call"))
			a.publish(schemas.Update{Session: "s1", Event: m, N: 1, Time: time.Unix(2, 0).UTC(), Source: "/x",
				Data: &schemas.ToolExecutionUpdate{ToolCallID: "t1", ToolName: "echo"}})
			a.say(m, piece)
		case item.Event != nil && item.Event.Type() == schemas.EventMessageEnd:
			if got >= most {
				t.Errorf("%d bytes were streamed", got*len(piece))
			}
			return
		case item.Update != nil:
			if got++; item.Update.Event != m || item.Delta() != piece {
				t.Fatalf("%.40s", describe(item))
			}
			if a.say(m, piece); got == most-1 {
				a.say(m, piece)
				a.end(m, "the reply")
			}
		}
	}
}
