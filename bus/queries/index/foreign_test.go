package index_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/schemas"
)

// answers has a server answer at keys of the bucket, and returns when all are stored.
func (r *rig) answers(keys ...string) {
	r.t.Helper()
	for _, key := range keys {
		before := r.revision()
		if err := r.conn.NATS().PublishMsg(&nats.Msg{Subject: "agent.live.other.update", Data: []byte("{}"),
			Reply: "$KV." + schemas.BucketSessions + "." + key}); err != nil {
			r.t.Fatal(err)
		}
		bustest.Eventually(r.t, "the answer is stored", func() bool { return r.revision() > before })
	}
}

// revision is that of the bucket.
func (r *rig) revision() uint64 {
	r.t.Helper()
	s, err := r.conn.JetStream().Stream(bustest.Deadline(r.t), "KV_"+schemas.BucketSessions)
	if err != nil {
		r.t.Fatal(err)
	}
	return s.CachedInfo().State.LastSeq
}

// stored is what a key of the bucket has.
func (r *rig) stored(key string) (operation, value string) {
	r.t.Helper()
	s, err := r.conn.JetStream().Stream(bustest.Deadline(r.t), "KV_"+schemas.BucketSessions)
	if err != nil {
		r.t.Fatal(err)
	}
	m, err := s.GetLastMsgForSubject(bustest.Deadline(r.t), "$KV."+schemas.BucketSessions+"."+key)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return "", ""
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return m.Header.Get("KV-Operation"), string(m.Data)
}

// An answer of a server over an entry takes the session out of no list, and the entry is written again: by who comes
// later, and has to read the log, and by who has the entry.
func TestAnAnswerOfAServerIsNoEntry(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	driver := r.open(never(r.quick()))
	s := r.session(driver, "s1")
	s.say(turn(1, "mine")...)
	reaches(t, driver, "s1", 8)
	for _, who := range []string{"who comes later", "who has it"} {
		r.answers("v1.s1", "v1.never", "v1.no=session")
		if err := driver.Wait(bustest.Deadline(t), r.revision()); err != nil {
			t.Fatal(err)
		}
		if e := driver.Get("s1"); e == nil || e.Summary.Title != "mine" {
			t.Fatalf("the session is listed as %+v", e)
		}
		if who == "who comes later" {
			reaches(t, r.open(r.quick()), "s1", 8)
		}
		bustest.Eventually(t, who+" writes the entry", func() bool {
			_, value := r.stored("v1.s1")
			return strings.Contains(value, "mine")
		})
		bustest.Eventually(t, who+" clears the key of no session", func() bool {
			operation, _ := r.stored("v1.never")
			return operation == "PURGE"
		})
	}
	r.answers("v1.s1")
	s.say(turn(2, "more")...) // the writer goes on over an answer
	if e := reaches(t, driver, "s1", 16); e.Summary.Runs != 2 {
		t.Errorf("%+v", e.Summary)
	}
}

// An answer of a server over the checkpoint does not have all logs compared anew.
func TestAnAnswerOfAServerIsNoCheckpoint(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ix := r.open(r.quick())
	r.session(nil, "s1").say(turn(1, "x")...)
	reaches(t, ix, "s1", 8)
	bustest.Eventually(t, "there is a checkpoint", func() bool { _, value := r.stored("v1"); return value != "" })
	if err := ix.Wait(bustest.Deadline(t), r.revision()); err != nil {
		t.Fatal(err)
	}
	readers, err := r.conn.NATS().SubscribeSync("$JS.API.CONSUMER.CREATE.AGENT_EVT.>")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = readers.Unsubscribe() }()
	r.answers("v1")
	if err := ix.Wait(bustest.Deadline(t), r.revision()); err != nil {
		t.Fatal(err)
	}
	r.session(nil, "s2").say(turn(1, "x")...) // is found by the next comparison
	reaches(t, ix, "s2", 8)
	for compared := false; !compared; {
		m, err := readers.NextMsg(10 * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(m.Data), `"deliver_policy":"last_per_subject"`) {
			t.Fatalf("the newest of all logs are read again: %s", m.Data)
		}
		compared = strings.Contains(string(m.Data), "by_start_sequence")
	}
}
