package main

import (
	"encoding/json"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/schemas"
)

// asked sends a query and decodes the answer.
func asked[T any](w *world, subject, request string) (answer T) {
	w.t.Helper()
	m, err := w.conn.NATS().Request(subject, []byte(request), deadline)
	if err == nil {
		err = json.Unmarshal(m.Data, &answer)
	}
	if err != nil {
		w.t.Fatalf("%s: %v", subject, err)
	}
	return answer
}

// summary returns what the list of all sessions has of one, nil if nothing.
func (w *world) summary(session string) *schemas.SessionSummary {
	w.t.Helper()
	for _, s := range asked[schemas.SessionsPage](w, "agent.query.sessions", "").Sessions {
		if s.Session == session {
			return &s
		}
	}
	return nil
}

// A runner is killed while a session is at work: the list, which had the session running, is right again when the next
// runner has continued it, and so are queries about the session.
func TestListsAreRightAfterAKill(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	call := bashCall("echo ran")
	first := w.runner("first", "["+call+","+stuck+"]")
	w.prompt("s1")
	w.until("s1", 4, schemas.EventMessageStart)
	eventually(t, "s1 is listed as running", func() bool {
		s := w.summary("s1")
		return s != nil && s.Status == schemas.SessionRunning && s.Turns == 2
	})
	w.runner("second", "["+call+`,{"text":"done"}]`)
	first.signal(syscall.SIGKILL)
	log := w.until("s1", 1, schemas.EventAgentEnd)
	eventually(t, "s1 is listed as its log ends", func() bool {
		s := w.summary("s1")
		return s != nil && s.Status == schemas.SessionIdle && s.Seq == log[len(log)-1].Seq
	})
	s := w.summary("s1")
	turns := 0
	for _, e := range log {
		if e.Type() == schemas.EventTurnStart {
			turns++
		}
	}
	if s.Title != "go" || s.LastMessage != "done" || s.Runs != 1 || s.Turns != turns {
		t.Errorf("%+v", s)
	}
	state := asked[schemas.SessionState](w, "agent.query.s1.state", "")
	if state.Seq != s.Seq || state.Status != schemas.SessionIdle || state.Usage != s.Usage {
		t.Errorf("the state is %+v, the list has %+v", state, s)
	}
	if stats := asked[schemas.SessionStats](w, "agent.query.s1.stats", ""); stats.ToolCalls != 1 || stats.Turns != turns {
		t.Errorf("%+v", stats)
	}
}

// Senders get the outcomes of their commands: when they are stored, when they are sent again, and by the runner
// that goes on where another was killed.
func TestSendersAreToldOutcomes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.runner("first", "["+stuck+"]")
	nc := w.conn.NATS()
	inbox := nc.NewInbox()
	answers, err := nc.SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(kind, payload string) {
		t.Helper()
		m := &nats.Msg{Subject: "agent.cmd.s1." + kind, Data: []byte(payload), Header: nats.Header{
			schemas.HeaderReply: {schemas.ReplyOutcome}, schemas.HeaderReplyTo: {inbox}}}
		if _, err := w.conn.JetStream().PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	next := func(want ...schemas.EventType) schemas.Event {
		t.Helper()
		m, err := answers.NextMsg(deadline)
		if err != nil {
			t.Fatalf("not told of %v: %v", want, err)
		}
		var q schemas.QueriedEvent
		if err := json.Unmarshal(m.Data, &q); err != nil {
			t.Fatal(err)
		}
		e, err := q.Event()
		for _, w := range want {
			if err == nil && e.Type() == w {
				return e
			}
		}
		t.Fatalf("told %s, want %v: %v", m.Data, want, err)
		return e
	}
	ask("prompt", `{"id":"p1","text":"go"}`)
	next(schemas.EventCommandAccepted, schemas.EventCommandApplied)
	w.until("s1", 1, schemas.EventCommandApplied)
	ask("prompt", `{"id":"p1","text":"go"}`) // sent again, while its run is under way
	next(schemas.EventCommandApplied)
	ask("prompt", `{"id":"p2","text":"again","whenBusy":"reject"}`)
	if r := next(schemas.EventCommandRejected).Data.(*schemas.CommandRejected); r.Code != schemas.RejectBusy {
		t.Errorf("%+v", r)
	}
	ask("abort", "no JSON")
	if r := next(schemas.EventCommandRejected).Data.(*schemas.CommandRejected); r.Code != schemas.RejectNotPlain {
		t.Errorf("%+v", r)
	}
	first.signal(syscall.SIGKILL)
	first.wait()
	w.runner("second", `[{"text":"done"}]`)
	next(schemas.EventCommandApplied) // p1 had woken the session and was not acknowledged
	w.until("s1", 1, schemas.EventAgentEnd)
	got := asked[schemas.Outcome](w, "agent.query.s1.outcome", `{"commandId":"p2"}`)
	if e, err := got.Event.Event(); err != nil || e.Type() != schemas.EventCommandRejected {
		t.Errorf("%+v, %v", got, err)
	}
	if m, err := answers.NextMsg(10 * time.Millisecond); err == nil {
		t.Logf("told once more: %s", m.Data)
	}
}
