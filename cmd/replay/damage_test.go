package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// forge appends an event of somebody else's making, in the way the server wants it.
func (w *world) forge(session string, seq uint64, prevHash string) {
	w.t.Helper()
	js := w.conn.JetStream()
	stream, err := js.Stream(w.ctx(), schemas.StreamEvents)
	if err != nil {
		w.t.Fatal(err)
	}
	subject := w.conn.Subjects().Event(session)
	last, err := stream.GetLastMsgForSubject(w.ctx(), subject)
	if err != nil {
		w.t.Fatal(err)
	}
	header, payload, err := schemas.EncodeEvent(schemas.Event{
		Session: session, Seq: seq, Time: begun, Source: "/forger", PrevHash: prevHash,
		Data: &schemas.ErrorEvent{Code: "forged", Message: "\x1b[2Jnothing happened"},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	m := &nats.Msg{Subject: subject, Header: header, Data: payload}
	m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, fmt.Sprint(last.Sequence))
	if _, err := js.PublishMsg(w.ctx(), m); err != nil {
		w.t.Fatal(err)
	}
}

// expect compares an invocation with its exit status and parts of its output.
func expect(t *testing.T, got result, code int, stdout, stderr string) {
	t.Helper()
	if got.code != code || !strings.Contains(got.stdout, stdout) || !strings.Contains(got.stderr, stderr) {
		t.Errorf("exit status %d\n--- stdout\n%s\n--- stderr\n%s\n--- want %d, %q and %q",
			got.code, got.stdout, got.stderr, code, stdout, stderr)
	}
	if strings.ContainsRune(got.stdout+got.stderr, '\x1b') {
		t.Error("the output has an escape character")
	}
}

func TestDamagedLogs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agentSession()
	w.serviceSession()
	w.bigSession()
	w.forge("service", 18, "")
	w.forge("big", 3, strings.Repeat("0", 64))

	gap := "event 18 follows event 16"
	expect(t, w.replay("list"), cli.StatusBad, "damaged", gap)
	expect(t, w.replay("list"), cli.StatusBad, "agent_end", gap) // the good one is shown all the same
	expect(t, w.replay("show", "service"), cli.StatusBad, "#4", gap)
	expect(t, w.replay("show", "service", "--json"), cli.StatusBad, `"id":"service/16"`, gap)
	expect(t, w.replay("state", "service"), cli.StatusBad, "", gap)
	expect(t, w.replay("export", "service"), cli.StatusBad, `"id":"service/16"`,
		"found event service/18 in place of service/17")
	expect(t, w.replay("export", "big"), cli.StatusBad, `"id":"big/2"`,
		"event 3 does not contain the hash of the message before it")
	expect(t, w.replay("show", "agent"), cli.StatusOK, "run r4 ends", "")

	got := w.replay("verify")
	expect(t, got, cli.StatusBad, "service: BAD: event 17: id: expected service/17, found service/18", "")
	expect(t, got, cli.StatusBad, "big: BAD: event 3: previous hash", "")
	expect(t, got, cli.StatusBad, "agent: ok, 30 events, hash ", "")
	expect(t, got, cli.StatusBad, "3 sessions, 2 bad\n", "")
	expect(t, w.replay("verify", "agent"), cli.StatusOK, "1 session, 0 bad", "")
	expect(t, w.replay("verify", "--json", "service"), cli.StatusBad,
		`"session":"service","ok":false,"events":16,"hash":"`, "")
	expect(t, w.replay("verify", "--json", "service"), cli.StatusBad, `","event":17,"problem":`, "")
}

// Nothing in a log follows from its last message. The hash that verify gives tells whether it is the same as before,
// and is in the message after it.
func TestVerifyGivesTheLastHash(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ended := func(session string, reason schemas.TerminationReason) (v verdict) {
		wr := w.writer(session)
		wr.append(&schemas.AgentStart{Config: &schemas.RunConfig{Model: schemas.ModelRef{ID: "m1"}}})
		wr.append(&schemas.AgentEnd{TerminationReason: reason})
		got := w.replay("verify", session, "--json")
		if err := json.Unmarshal([]byte(got.stdout), &v); err != nil || !v.OK || v.Events != 2 || len(v.Hash) != 64 {
			t.Fatalf("%v: %v", got, err)
		}
		return v
	}
	stream, err := w.conn.JetStream().Stream(w.ctx(), schemas.StreamEvents)
	if err != nil {
		t.Fatal(err)
	}
	before := ended("s1", schemas.EndAbort)
	if err := stream.Purge(w.ctx(), jetstream.WithPurgeSubject(w.conn.Subjects().Event("s1"))); err != nil {
		t.Fatal(err)
	}
	after := ended("s1", schemas.EndNoToolCalls)
	if after.Hash == before.Hash {
		t.Errorf("the hash is %s with either end", after.Hash)
	}
	expect(t, w.replay("verify", "s1"), cli.StatusOK, "s1: ok, 2 events, hash "+after.Hash+"\n", "")
	wr := w.writer("s1")
	wr.event.Seq = 2
	wr.append(&schemas.ErrorEvent{Code: "next"})
	expect(t, w.replay("export", "s1"), cli.StatusOK, `"prevhash":"`+after.Hash+`"`, "")
}

func TestDamagedPayload(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bigSession()
	bucket, err := w.conn.JetStream().ObjectStore(w.ctx(), schemas.BucketBlobs)
	if err != nil {
		t.Fatal(err)
	}
	payloads, err := bucket.List(w.ctx())
	if err != nil || len(payloads) != 1 {
		t.Fatalf("%d payloads, %v", len(payloads), err)
	}
	if _, err := bucket.PutBytes(w.ctx(), payloads[0].Name, []byte(`{"messages":[]}`)); err != nil {
		t.Fatal(err)
	}
	expect(t, w.replay("export", "big"), cli.StatusBad, "",
		"after event 0: message 1 of the stream: log damaged: payload nats://agent_blobs/")
	expect(t, w.replay("verify"), cli.StatusBad, "big: BAD: event 1: payload in the object store", "")
	if err := bucket.Delete(w.ctx(), payloads[0].Name); err != nil {
		t.Fatal(err)
	}
	expect(t, w.replay("export", "big"), cli.StatusBad, "", "object not found")
	expect(t, w.replay("show", "big"), cli.StatusBad, "", "object not found")
}

func TestVerifyComparesSnapshots(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agentSession()
	state := new(loop.State)
	for e, err := range w.store.Read(w.ctx(), "agent", 1) {
		if err != nil {
			t.Fatal(err)
		}
		if err := state.Apply(e); err != nil {
			t.Fatal(err)
		}
		if e.Seq == 20 {
			break
		}
	}
	save := func(seq uint64) {
		t.Helper()
		raw, err := schemas.Marshal(state)
		if err == nil {
			err = w.open("agent").SaveSnapshot(w.ctx(), loop.FoldVersion, seq, raw)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	save(20)
	expect(t, w.replay("verify"), cli.StatusOK, "agent: ok, 30 events, snapshot at 20, hash ", "")
	save(21)
	says := fmt.Sprintf("agent: BAD: event 21: snapshot version %d", loop.FoldVersion)
	expect(t, w.replay("verify"), cli.StatusBad, says, "")
}

func TestWhatIsNotThere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	expect(t, w.replay("list"), cli.StatusOK, "SESSION", "")
	expect(t, w.replay("verify"), cli.StatusOK, "0 sessions, 0 bad", "")
	expect(t, w.replay("export", "--all"), cli.StatusOK, "", "")
	expect(t, w.replay("show", "nobody"), cli.StatusBad, "", "session nobody has no log")
	expect(t, w.replay("state", "nobody"), cli.StatusBad, "", "session nobody has no log")
	expect(t, w.replay("export", "nobody"), cli.StatusBad, "", "session nobody has no log")
	expect(t, w.replay("verify", "nobody"), cli.StatusBad, "nobody: BAD: no log", "")
	w.agentSession()
	expect(t, w.replay("state", "agent", "--at", "31"), cli.StatusBad, "", "session agent has no event 31: it ends at 30")
	expect(t, w.replay("show", "agent", "--at", "2020-01-01T00:00:00Z"), cli.StatusBad, "", "no event at or before 2020")
	expect(t, w.replay("list", "--prefix", "other"), cli.StatusBad, "", "use the --prefix of the runners")
}
