package index_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/schemas"
)

// subjects returns the subjects in the stream of logs, with their number of messages.
func (r *rig) subjects() map[string]uint64 {
	r.t.Helper()
	s, err := r.conn.JetStream().Stream(bustest.Deadline(r.t), schemas.StreamEvents)
	if err != nil {
		r.t.Fatal(err)
	}
	info, err := s.Info(bustest.Deadline(r.t), jetstream.WithSubjectFilter(">"))
	if err != nil {
		r.t.Fatal(err)
	}
	return info.State.Subjects
}

// litter directs n answers of the server to the subjects that subject returns, and waits until they are stored.
func (r *rig) litter(n int, subject func(i int) string) {
	r.t.Helper()
	before := bustest.Messages(r.t, r.conn, schemas.StreamEvents)
	for i := range n {
		err := r.conn.NATS().PublishMsg(&nats.Msg{Subject: "agent.live.other.update", Reply: subject(i), Data: []byte(`{}`)})
		if err != nil {
			r.t.Fatal(err)
		}
	}
	bustest.Eventually(r.t, "the answers are stored", func() bool {
		return bustest.Messages(r.t, r.conn, schemas.StreamEvents) == before+uint64(n)
	})
}

// The audit deletes old answers of servers on subjects without a log. It deletes nothing from the subject of a log,
// intact or damaged, and no message younger than Stray. It leaves subjects with wildcards alone: a purge of one would
// delete all logs.
func TestAuditDeletesStrayMessages(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	o := r.quick()
	o.Stray = time.Hour
	ix := r.open(o)
	r.session(ix, "s1").say(turn(1, "one")...)
	logs := r.subjects()["agent.evt.s1"]
	_, err := r.conn.JetStream().PublishMsg(bustest.Deadline(t), &nats.Msg{Subject: "agent.evt.damaged",
		Header: nats.Header{schemas.HeaderCommit: {"v2 1-1"}}, Data: []byte("what is this")})
	if err != nil {
		t.Fatal(err)
	}
	at := func(i int) string {
		return []string{"agent.evt.s1", "agent.evt.damaged", fmt.Sprintf("agent.evt.x%d", i), "agent.evt.no:session"}[i%4]
	}
	r.litter(400, at)
	r.litter(2, func(i int) string { return []string{"agent.evt.*", "agent.evt.>"}[i] })
	kv := &nats.Msg{Subject: "agent.evt.marked", Header: nats.Header{"KV-Operation": {"PURGE"}}}
	if _, err := r.conn.JetStream().PublishMsg(bustest.Deadline(t), kv); err != nil {
		t.Fatal(err)
	}
	reaches(t, ix, "s1", 8)
	ix.Close()
	if n := len(r.subjects()); n != 106 {
		t.Fatalf("young messages: %d subjects are left", n)
	}
	o.Stray = time.Nanosecond
	r.open(o)
	bustest.Eventually(t, "the stray messages are deleted", func() bool { return len(r.subjects()) <= 4 })
	left := r.subjects()
	if left["agent.evt.s1"] != logs+100 || left["agent.evt.damaged"] != 101 {
		t.Errorf("left are %v", left)
	}
	if _, _, err := r.store.Head(bustest.Deadline(t), "s1"); err != nil {
		t.Error(err)
	}
}
