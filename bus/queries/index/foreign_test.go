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

// answers directs answers of the server to keys of the bucket, and returns when all are stored.
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

// revision returns the revision of the bucket.
func (r *rig) revision() uint64 {
	r.t.Helper()
	s, err := r.conn.JetStream().Stream(bustest.Deadline(r.t), "KV_"+schemas.BucketSessions)
	if err != nil {
		r.t.Fatal(err)
	}
	return s.CachedInfo().State.LastSeq
}

// stored returns the newest message of a key of the bucket.
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

// An answer of a server at the key of an entry does not remove the session from a list. The entry is written again, by
// a runner that starts later and reads the log, and by a runner that knows the entry.
func TestServerAnswerIsNotAnEntry(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	driver := r.open(never(r.quick()))
	s := r.session(driver, "s1")
	s.say(turn(1, "mine")...)
	reaches(t, driver, "s1", 8)
	for _, writer := range []string{"a later runner", "a runner that knows it"} {
		r.answers("v1.s1", "v1.never", "v1.no=session")
		if err := driver.Wait(bustest.Deadline(t), r.revision()); err != nil {
			t.Fatal(err)
		}
		if e := driver.Get("s1"); e == nil || e.Summary.Title != "mine" {
			t.Fatalf("the session is listed as %+v", e)
		}
		if writer == "a later runner" {
			reaches(t, r.open(r.quick()), "s1", 8)
		}
		bustest.Eventually(t, writer+" writes the entry", func() bool {
			_, value := r.stored("v1.s1")
			return strings.Contains(value, "mine")
		})
		bustest.Eventually(t, writer+" clears the key without a session", func() bool {
			operation, _ := r.stored("v1.never")
			return operation == "PURGE"
		})
	}
	r.answers("v1.s1")
	s.say(turn(2, "more")...) // the writer replaces the answer
	if e := reaches(t, driver, "s1", 16); e.Summary.Runs != 2 {
		t.Errorf("%+v", e.Summary)
	}
}

// A runner that reads the bucket again still knows an entry that was covered: the log is not needed to write it again.
func TestACoveredEntryIsKeptWhenTheBucketIsReadAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	driver := r.open(never(r.quick()))
	r.session(driver, "s1").say(turn(1, "mine")...)
	reaches(t, driver, "s1", 8)
	driver.Close()
	o := never(r.quick())
	o.Logs = noLogs{}
	ix := r.open(o)
	r.answers("v1.s1")
	if err := ix.Wait(bustest.Deadline(t), r.revision()); err != nil {
		t.Fatal(err)
	}
	if err := r.conn.NATS().ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "the entry is written again", func() bool {
		_, value := r.stored("v1.s1")
		return strings.Contains(value, "mine")
	})
	if ix.Get("s1") == nil {
		t.Error("the session is not listed")
	}
}

// An answer of a server at the key of the checkpoint does not restart the comparison with all logs.
func TestServerAnswerIsNotACheckpoint(t *testing.T) {
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
	r.session(nil, "s2").say(turn(1, "x")...) // the next comparison finds it
	reaches(t, ix, "s2", 8)
	for compared := false; !compared; {
		m, err := readers.NextMsg(10 * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(m.Data), `"deliver_policy":"last_per_subject"`) {
			t.Fatalf("the index reads the heads of all logs again: %s", m.Data)
		}
		compared = strings.Contains(string(m.Data), "by_start_sequence")
	}
}
