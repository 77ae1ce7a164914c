package index_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/queries/index"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

func TestMain(m *testing.M) { bustest.Main(m) }

// rig is a server with streams, a connection to it, and a store of logs.
type rig struct {
	t     testing.TB
	conn  *bus.Conn
	store *eventstore.Store
}

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{t: t, conn: bustest.New(t)}
	var err error
	if r.store, err = eventstore.New(r.conn.Events(), eventstore.Options{}); err != nil {
		t.Fatal(err)
	}
	return r
}

// quick returns options with short intervals.
func (r *rig) quick() index.Options {
	return index.Options{
		Logs: r.store, Damaged: eventstore.ErrDamaged, Interval: 50 * time.Millisecond, Check: 50 * time.Millisecond,
		Grace: 20 * time.Millisecond, Audit: 50 * time.Millisecond,
		Setup: func(ctx context.Context) error { return streams.Setup(ctx, r.conn, streams.Options{}) },
	}
}

func (r *rig) open(o index.Options) *index.Index {
	r.t.Helper()
	ix := index.Open(r.conn, o)
	r.t.Cleanup(ix.Close)
	<-ix.Ready()
	return ix
}

// session is a session that a process drives. Its events are passed to track, unless that is nil.
type session struct {
	r     *rig
	id    string
	seq   uint64
	log   *eventstore.Log
	track *index.Track
}

func (r *rig) session(ix *index.Index, id string) *session {
	r.t.Helper()
	log, err := r.store.Open(r.t.Context(), id)
	if err != nil {
		r.t.Fatal(err)
	}
	s := &session{r: r, id: id, log: log}
	s.seq, _ = log.Stored()
	if ix != nil {
		s.track = ix.Track(id, s.seq, log.Stored)
	}
	return s
}

// say appends events and waits until they are stored.
func (s *session) say(data ...schemas.EventData) {
	s.r.t.Helper()
	s.append(data...)
	if err := s.log.Flush(s.r.t.Context()); err != nil {
		s.r.t.Fatal(err)
	}
}

func (s *session) append(data ...schemas.EventData) {
	s.r.t.Helper()
	for _, d := range data {
		s.seq++
		e := schemas.Event{Session: s.id, Seq: s.seq, Time: time.Now().UTC().Truncate(time.Millisecond),
			Source: "/loopbus/runner/r1", Data: d}
		if err := s.log.Append(s.r.t.Context(), e); err != nil {
			s.r.t.Fatal(err)
		}
		if s.track != nil {
			s.track.Appended(e)
		}
	}
}

// turn returns the events of a run of one turn with a text of the user.
func turn(n int, text string) []schemas.EventData {
	user, reply := fmt.Sprintf("u%d", n), fmt.Sprintf("a%d", n)
	return []schemas.EventData{
		&schemas.AgentStart{Config: &schemas.RunConfig{Model: schemas.ModelRef{ID: "m"}}}, &schemas.TurnStart{},
		&schemas.MessageStart{MessageID: user, Role: schemas.RoleUser},
		&schemas.MessageEnd{MessageID: user, Message: schemas.AnyMessage{Message: &schemas.UserMessage{
			Content: schemas.Contents{schemas.Text{Text: text}}}}},
		&schemas.MessageStart{MessageID: reply, Role: schemas.RoleAssistant, Model: "m"},
		&schemas.MessageEnd{MessageID: reply, Message: schemas.AnyMessage{Message: &schemas.AssistantMessage{
			Content: schemas.Contents{schemas.Text{Text: "answer to " + text}},
			Usage:   schemas.Usage{Input: 10, Output: 5, TotalTokens: 15, Cost: schemas.Cost{Total: 0.5}}}}},
		&schemas.TurnEnd{MessageID: reply}, &schemas.AgentEnd{TerminationReason: schemas.EndNoToolCalls},
	}
}

// reaches waits until the entry of a session includes the event at a sequence, and returns the entry.
func reaches(t testing.TB, ix *index.Index, id string, seq uint64) *index.Entry {
	t.Helper()
	bustest.Eventually(t, fmt.Sprintf("session %s is at seq %d", id, seq), func() bool {
		e := ix.Get(id)
		return e != nil && e.Summary.Seq >= seq
	})
	return ix.Get(id)
}

func purgeOf(subject string) jetstream.StreamPurgeOpt { return jetstream.WithPurgeSubject(subject) }

// spoil stores a message on the subject of a log that no writer of a log has written.
func (r *rig) spoil(id string, header nats.Header) {
	r.t.Helper()
	m := &nats.Msg{Subject: "agent.evt." + id, Header: header, Data: []byte("no event")}
	if _, err := r.conn.JetStream().PublishMsg(r.t.Context(), m); err != nil {
		r.t.Fatal(err)
	}
}
