package retention_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/retention"
	"github.com/loopbus/loopbus/schemas"
)

// last is the sequence of the newest message of a stream.
func (w *world) last(stream string) uint64 {
	w.t.Helper()
	s, err := w.conn.JetStream().Stream(bustest.Deadline(w.t), stream)
	w.must(err)
	return s.CachedInfo().State.LastSeq
}

// answerAt has the server answer at a subject of the bucket of deletions.
func (w *world) answerAt(subject string) {
	w.t.Helper()
	before := w.last("KV_agent_deletions")
	w.must(w.conn.NATS().PublishMsg(&nats.Msg{Subject: w.conn.Subjects().LiveUpdate("other"), Reply: subject,
		Data: []byte(`{}`)}))
	bustest.Eventually(w.t, "the answer is stored", func() bool { return w.last("KV_agent_deletions") > before })
}

// forwards has the server answer at a subject of the bucket of deletions with a message that it has stored.
func (w *world) forwards(subject, data string) {
	w.t.Helper()
	stored := w.conn.Subjects().Event("stored")
	w.publish(stored, data)
	before := w.last("KV_agent_deletions")
	w.must(w.conn.NATS().PublishRequest("$JS.API.DIRECT.GET.AGENT_EVT."+stored, subject, nil))
	bustest.Eventually(w.t, "the answer is stored", func() bool { return w.last("KV_agent_deletions") > before })
}

// An acknowledgement of a server in the place of the record of a deletion is none: without a fence nothing is deleted,
// and what has gone on is kept.
func TestAnAnswerOfAServerIsNoDeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill("s1")
	d := w.deleter(retention.Options{})
	const subject = "$KV.agent_deletions.session.s1"
	w.answerAt(subject)
	w.must(d.Resume(bustest.Deadline(t), "s1"))
	if n := len(w.places("s1")); n != 8 {
		t.Errorf("after the answer, the session has %d places", n)
	}
	w.answerAt(subject)
	_, err := d.Delete(bustest.Deadline(t), retention.Request{Session: "s1", At: 1 << 40})
	if !errors.Is(err, retention.ErrBusy) {
		t.Errorf("a session that has gone on was deleted: %v", err)
	}
	w.answerAt(subject)
	if _, err := d.Delete(bustest.Deadline(t), retention.Request{Session: "s1"}); err != nil {
		t.Errorf("the answer prevents the deletion: %v", err)
	}
	if left := w.places("s1"); len(left) != 0 {
		t.Errorf("left are %v", left)
	}
}

// An answer in the place of the lease is nobody's, and however many come a keeper works.
func TestAnAnswerOfAServerIsNoKeeper(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ix := w.index()
	w.answerAt("$KV.agent_deletions.lease")
	w.ended("s1", "", time.Hour, 1)
	deleted := w.keeps("r1", ix)
	late := bustest.Deadline(t).Done()
	for again := time.NewTicker(100 * time.Millisecond); ; {
		select {
		case got := <-deleted:
			if got != retention.ReasonAge {
				t.Errorf("deleted for %s", got)
			}
			again.Stop()
			return
		case <-again.C:
			w.answerAt("$KV.agent_deletions.lease")
		case <-late:
			t.Fatal("no keeper works")
		}
	}
}

// A stored message in the place of the lease, which has the sequence of another stream in its header, is nobody's.
func TestAStoredMessageIsNoKeeper(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ix := w.index()
	w.ended("s1", "", time.Hour, 1)
	w.forwards("$KV.agent_deletions.lease", "another")
	bustest.Within(t, w.keeps("r1", ix))
}

// An answer in the place of a timer is none: the session is not busy, and can be deleted. A timer beside answers keeps
// it.
func TestAnAnswerOfAServerIsNoTimer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill("s1")
	d := w.deleter(retention.Options{})
	timers := bus.NewTimers(w.conn)
	answers := func() {
		t.Helper()
		for _, name := range []string{"retry", "retry-0123", "x", "*"} {
			before := w.last("AGENT_TIMER")
			w.must(w.conn.NATS().PublishMsg(&nats.Msg{Subject: w.conn.Subjects().LiveUpdate("other"), Data: []byte(`{}`),
				Reply: w.conn.Subjects().Schedule("s1", name)}))
			bustest.Eventually(t, "the answer is stored", func() bool { return w.last("AGENT_TIMER") > before })
		}
	}
	answers()
	w.must(timers.Schedule(bustest.Deadline(t), "s1", time.Now().Add(time.Hour), schemas.Timer{Name: "later"}))
	answers()
	for range 8 { // what lies there is looked at in any order
		_, err := d.Delete(bustest.Deadline(t), retention.Request{Session: "s1"})
		if !errors.Is(err, retention.ErrBusy) || !strings.Contains(err.Error(), "a timer waits") {
			t.Fatalf("with a timer: %v", err)
		}
	}
	w.must(timers.Cancel(bustest.Deadline(t), "s1", "later"))
	answers()
	if _, err := d.Delete(bustest.Deadline(t), retention.Request{Session: "s1"}); err != nil {
		t.Errorf("with answers only: %v", err)
	}
	if left := w.places("s1"); len(left) != 0 {
		t.Errorf("left are %v", left)
	}
}
