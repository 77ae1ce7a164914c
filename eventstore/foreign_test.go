package eventstore_test

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// reply makes the server answer a request at a subject for which the requester may have no permission, and waits until
// the subject has one more message.
func reply(t *testing.T, js jetstream.JetStream, request nats.Msg, at string) {
	t.Helper()
	before := messagesOn(t, js, at)
	request.Reply = at
	if err := js.Conn().PublishMsg(&request); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server answers at "+at, func() bool { return messagesOn(t, js, at) > before })
}

func messagesOn(t *testing.T, js jetstream.JetStream, subject string) uint64 {
	t.Helper()
	s, err := js.Stream(t.Context(), schemas.StreamEvents)
	if err != nil {
		t.Fatal(err)
	}
	info, err := s.Info(t.Context(), jetstream.WithSubjectFilter(subject))
	if err != nil {
		t.Fatal(err)
	}
	return info.State.Subjects[subject]
}

// The requests whose answers are stored in a log.
var (
	notFound = nats.Msg{Subject: "$JS.API.DIRECT.GET.AGENT_EVT.agent.evt.none"}
	state    = nats.Msg{Subject: "$JS.API.STREAM.INFO.AGENT_EVT"}
)

// seqs reads events and returns their sequences.
func seqs(t *testing.T, events iter.Seq2[schemas.Event, error]) (all []uint64) {
	t.Helper()
	for e, err := range events {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e.Seq)
	}
	return all
}

func wantSeqs(t *testing.T, what string, got []uint64, last uint64) {
	t.Helper()
	for i, seq := range got {
		if seq != uint64(i)+1 {
			t.Fatalf("%s: %v", what, got)
		}
	}
	if uint64(len(got)) != last {
		t.Errorf("%s: %d events, want %d", what, len(got), last)
	}
}

// Answers of the server before, between and behind the commits of a log do no harm: reading, writing, listing and
// verifying have the same results as without them, except that the report names them.
func TestForeignMessagesAreNoPartOfALog(t *testing.T) {
	t.Parallel()
	var seen atomic.Int32
	s, js := newJetStream(t, eventstore.Options{OnForeign: func(string) { seen.Add(1) }})
	reply(t, js, notFound, "agent.evt.s1")
	l := open(t, s, "s1")
	mustAppend(t, l, event("s1", 1, "a"), event("s1", 2, "a"))
	reply(t, js, state, "agent.evt.s1")
	mustAppend(t, l, event("s1", 3, "a")) // behind it, by the same writer
	if err := l.SaveSnapshot(ctxOf(t), 1, 2, []byte("two")); err != nil {
		t.Errorf("a snapshot before a foreign message: %v", err)
	}
	reply(t, js, notFound, "agent.evt.s1")
	reply(t, js, notFound, "agent.evt.s1")
	if err := l.Confirm(ctxOf(t), time.Now()); err != nil {
		t.Errorf("confirm behind foreign messages: %v", err)
	}
	again := open(t, s, "s1")
	if _, seq, err := again.Snapshot(ctxOf(t), 1); seq != 2 || err != nil {
		t.Errorf("snapshot at %d: %v", seq, err)
	}
	wantSeqs(t, "an opened log", seqs(t, again.Read(ctxOf(t), 1)), 3)
	mustAppend(t, again, event("s1", 4, "b"))
	reply(t, js, state, "agent.evt.s1")
	wantSeqs(t, "a reader", seqs(t, s.Read(ctxOf(t), "s1", 1)), 4)
	if seq, err := s.At(ctxOf(t), "s1", time.Now().Add(1000*time.Hour)); seq != 4 || err != nil {
		t.Errorf("at the end: %d, %v", seq, err)
	}
	r, err := s.Verify(ctxOf(t), "s1", eventstore.VerifyOptions{Version: 1})
	if err != nil || !r.OK() || r.Events != 4 || r.ForeignCount != 5 || fmt.Sprint(r.Foreign) != "[1 3 5 6 8]" {
		t.Errorf("report %+v, %v", r, err)
	}
	if n := seen.Load(); n != 3 {
		t.Errorf("writers have met %d, want 3: those behind what they had seen", n)
	}
	reply(t, js, state, "agent.evt.s2")
	var listed []string
	for info, err := range s.Sessions(ctxOf(t)) {
		if err != nil {
			t.Fatal(err)
		}
		listed = append(listed, fmt.Sprint(info.Session, " ", info.Events))
	}
	if got := strings.Join(listed, ","); got != "s1 4" {
		t.Errorf("listed %s", got)
	}
}

// A message with the header of a status, and without payload, is foreign like any other.
func TestAStatusInALogIsForeign(t *testing.T) {
	t.Parallel()
	for _, byConsumer := range []bool{true, false} {
		s, js := newJetStream(t, eventstore.Options{ByConsumer: byConsumer})
		l := open(t, s, "s1")
		mustAppend(t, l, event("s1", 1, "a"))
		for _, code := range []string{"409", "503"} {
			status := nats.NewMsg("agent.evt.s1")
			status.Header.Set("Status", code)
			if _, err := js.PublishMsg(ctxOf(t), status); err != nil {
				t.Fatal(err)
			}
		}
		l = open(t, s, "s1")
		mustAppend(t, l, event("s1", 2, "a"))
		wantSeqs(t, fmt.Sprint("by consumer: ", byConsumer), seqs(t, s.Read(ctxOf(t), "s1", 1)), 2)
	}
}

// Two writers that both find foreign messages never both extend the log, however their appends interleave.
func TestForeignMessagesDoNotBreakTheFence(t *testing.T) {
	t.Parallel()
	s, js := newJetStream(t, eventstore.Options{})
	first := open(t, s, "s1")
	mustAppend(t, first, event("s1", 1, "a"))
	second := open(t, s, "s1")
	reply(t, js, state, "agent.evt.s1")
	done := make(chan error, 2)
	for name, l := range map[string]*eventstore.Log{"b": first, "c": second} {
		go func() {
			err := l.Append(ctxOf(t), event("s1", 2, name))
			done <- errors.Join(err, l.Flush(ctxOf(t)))
		}()
	}
	stored, conflicts := 0, 0
	for range 2 {
		switch err := <-done; {
		case err == nil:
			stored++
		case errors.Is(err, schemas.ErrConflict):
			conflicts++
		default:
			t.Error(err)
		}
	}
	if stored != 1 || conflicts != 1 {
		t.Errorf("%d stored, %d conflicts", stored, conflicts)
	}
	third := open(t, s, "s1")
	mustAppend(t, third, event("s1", 3, "d"))
	reply(t, js, state, "agent.evt.s1")
	late := open(t, s, "s1")
	mustAppend(t, late, event("s1", 4, "e"))
	if err := third.Confirm(ctxOf(t), time.Now()); !errors.Is(err, schemas.ErrConflict) {
		t.Errorf("the writer before confirms: %v", err)
	}
	mustVerify(t, s, "s1", 4)
}

// A commit of one session that a client publishes to another one's log is foreign there, even if it could be its first.
func TestACommitOfAnotherSessionIsForeign(t *testing.T) {
	t.Parallel()
	s, js := newJetStream(t, eventstore.Options{})
	mustAppend(t, open(t, s, "s1"), event("s1", 1, "a"), event("s1", 2, "a"))
	stream, err := js.Stream(t.Context(), schemas.StreamEvents)
	if err != nil {
		t.Fatal(err)
	}
	m, err := stream.GetLastMsgForSubject(t.Context(), "agent.evt.s1")
	if err != nil {
		t.Fatal(err)
	}
	copied := &nats.Msg{Subject: "agent.evt.s2", Header: m.Header, Data: m.Data}
	if _, err := js.PublishMsg(t.Context(), copied); err != nil {
		t.Fatal(err)
	}
	mustAppend(t, open(t, s, "s2"), event("s2", 1, "b"))
	r, err := s.Verify(ctxOf(t), "s2", eventstore.VerifyOptions{})
	if err != nil || !r.OK() || r.Events != 1 || r.ForeignCount != 1 {
		t.Errorf("report %+v, %v", r, err)
	}
}

// A log is loaded only if it would pass the verification of its chain.
func TestLoadingChecksTheChain(t *testing.T) {
	t.Parallel()
	for name, hurt := range map[string]func(d *damage){
		"another history": func(d *damage) {
			d.commit(func(m *nats.Msg) { m.Header.Set(schemas.HeaderPrevious, "abc") })
		},
		"appended without the check": func(d *damage) {
			d.commit(func(m *nats.Msg) { m.Header.Del(jetstream.ExpectedLastSubjSeqHeader) })
		},
		"an event in binary mode of another history": func(d *damage) { d.set(schemas.HeaderPrevHash, "abc") },
		"something else by its content type": func(d *damage) {
			d.commit(func(m *nats.Msg) { m.Header.Set(schemas.HeaderContentType, "application/json") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, js := newJetStream(t, eventstore.Options{})
			stream, err := js.Stream(t.Context(), schemas.StreamEvents)
			if err != nil {
				t.Fatal(err)
			}
			d := &damage{t: t, js: js, stream: stream, log: open(t, s, "s1")}
			mustAppendEach(t, d.log, event("s1", 1, "a"), event("s1", 2, "a"), event("s1", 3, "a"))
			hurt(d)
			l, err := s.Open(ctxOf(t), "s1")
			for _, readErr := range l.Read(ctxOf(t), 1) {
				err = errors.Join(err, readErr)
			}
			if !errors.Is(err, eventstore.ErrDamaged) {
				t.Errorf("loaded: %v", err)
			}
		})
	}
}

// A message on a subject that is no session's, which could stand for all logs, is left out of the list of sessions.
func TestSessionsAreListedBesideSubjectsWithWildcards(t *testing.T) {
	t.Parallel()
	s, js := newJetStream(t, eventstore.Options{})
	mustAppend(t, open(t, s, "s1"), event("s1", 1, "a"))
	const more = 1024 // than a server's answer has room for
	for i := range more {
		if _, err := js.PublishAsync(fmt.Sprintf("agent.evt.foreign-%d", i), nil); err != nil {
			t.Fatal(err)
		}
	}
	<-js.PublishAsyncComplete()
	for _, at := range []string{"agent.evt.*", "agent.evt.>", "agent.evt.é", "agent.evt.a*", "agent.evt.\xff"} {
		if err := js.Conn().PublishRequest("$JS.API.DIRECT.GET.AGENT_EVT.agent.evt.none", at, nil); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the server answers", func() bool { return messagesOn(t, js, "agent.evt.a*") > 0 })
	var got []string
	for info, err := range s.Sessions(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, info.Session)
	}
	if !slices.Equal(got, []string{"s1"}) {
		t.Errorf("%d sessions: %.300q", len(got), got)
	}
}
