package eventstore_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// damage is a log of three events, and ways to hurt it.
type damage struct {
	t      *testing.T
	js     jetstream.JetStream
	stream jetstream.Stream
	log    *eventstore.Log
}

// last returns stream sequence and hash of the session's last message.
func (d *damage) last() (uint64, string) {
	d.t.Helper()
	m, err := d.stream.GetLastMsgForSubject(d.t.Context(), "agent.evt.s1")
	if err != nil {
		d.t.Fatal(err)
	}
	return m.Sequence, schemas.Hash(m.Header, m.Data)
}

// publish stores a message that change has made out of a correct fourth event.
func (d *damage) publish(change func(m *nats.Msg)) {
	d.t.Helper()
	last, hash := d.last()
	e := event("s1", 4, "forged")
	e.PrevHash = hash
	header, payload, err := schemas.EncodeEvent(e)
	if err != nil {
		d.t.Fatal(err)
	}
	m := &nats.Msg{Subject: "agent.evt.s1", Header: header, Data: payload}
	m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, fmt.Sprint(last))
	change(m)
	if _, err := d.js.PublishMsg(d.t.Context(), m); err != nil {
		d.t.Fatal(err)
	}
}

// binary stores an event in the form of before, and returns its hash.
func (d *damage) binary(e schemas.Event, last uint64, previous string) string {
	d.t.Helper()
	e.PrevHash = previous
	header, payload, err := schemas.EncodeEvent(e)
	if err != nil {
		d.t.Fatal(err)
	}
	m := &nats.Msg{Subject: "agent.evt.s1", Header: header, Data: payload}
	m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, fmt.Sprint(last))
	if _, err := d.js.PublishMsg(d.t.Context(), m); err != nil {
		d.t.Fatal(err)
	}
	return schemas.Hash(header, payload)
}

// commit stores a commit of the events 4 to 6 that change has hurt.
func (d *damage) commit(change func(m *nats.Msg)) {
	d.t.Helper()
	last, hash := d.last()
	events := []schemas.Event{event("s1", 4, "forged"), event("s1", 5, "forged"), event("s1", 6, "forged")}
	events[0].PrevHash = hash
	header, payload, err := schemas.EncodeCommit(events...)
	if err != nil {
		d.t.Fatal(err)
	}
	m := &nats.Msg{Subject: "agent.evt.s1", Header: header, Data: payload}
	m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, fmt.Sprint(last))
	change(m)
	if _, err := d.js.PublishMsg(d.t.Context(), m); err != nil {
		d.t.Fatal(err)
	}
}

// replace has a commit with this text in place of the first of another.
func (d *damage) replace(old, replacement string) {
	d.commit(func(m *nats.Msg) { m.Data = bytes.Replace(m.Data, []byte(old), []byte(replacement), 1) })
}

func (d *damage) span(span string) {
	d.commit(func(m *nats.Msg) { m.Header.Set(schemas.HeaderCommit, span) })
}

func (d *damage) set(key, value string) {
	d.publish(func(m *nats.Msg) { m.Header.Set(key, value) })
}

func (d *damage) delete(streamSeq uint64) {
	d.t.Helper()
	if err := d.stream.DeleteMsg(d.t.Context(), streamSeq); err != nil {
		d.t.Fatal(err)
	}
}

func (d *damage) snapshot(seq uint64) {
	d.t.Helper()
	if err := d.log.SaveSnapshot(d.t.Context(), 1, seq, []byte("state")); err != nil {
		d.t.Fatal(err)
	}
}

func (d *damage) blobs() jetstream.ObjectStore {
	d.t.Helper()
	b, err := d.js.ObjectStore(d.t.Context(), schemas.BucketBlobs)
	if err != nil {
		d.t.Fatal(err)
	}
	return b
}

// appendBig appends a fourth event whose payload is in the object store, and returns its name there.
func (d *damage) appendBig() string {
	d.t.Helper()
	e := event("s1", 4, "a")
	e.Data = &schemas.ErrorEvent{Code: "big", Message: strings.Repeat("x", 300<<10)}
	mustAppend(d.t, d.log, e)
	m, err := d.stream.GetLastMsgForSubject(d.t.Context(), "agent.evt.s1")
	if err != nil {
		d.t.Fatal(err)
	}
	_, name, _ := strings.Cut(string(m.Data), `"dataref":"nats://agent_blobs/`)
	name, _, ok := strings.Cut(name, `"`)
	if !ok || len(m.Data) > 1000 {
		d.t.Fatalf("%d bytes in the stream", len(m.Data))
	}
	return name
}

func TestVerifyFindsDamage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		hurt  func(d *damage)
		seq   uint64
		wants []string // in the text
	}{
		{"none", func(d *damage) { d.publish(func(*nats.Msg) {}) }, 0, nil},
		{"first event deleted", func(d *damage) { d.delete(1) }, 1,
			[]string{"event 1: commit: expected one from event 1 on, found v2 2-2"}},
		{"event deleted in the middle", func(d *damage) { d.delete(2) }, 2,
			[]string{"event 2: commit: expected one from event 2 on, found v2 3-3 (message 3 of the stream)"}},
		{"sequence twice", func(d *damage) { d.set(schemas.HeaderID, "s1/3") }, 4, []string{"id: expected s1/4, found s1/3"}},
		{"sequence and id differ", func(d *damage) { d.set(schemas.HeaderSequence, "5") }, 4,
			[]string{"sequence: expected 00000000000000000004, found 5"}},
		{"subject differs", func(d *damage) { d.set(schemas.HeaderSubject, "s2") }, 4,
			[]string{"subject: expected s1, found s2"}},
		{"no version", func(d *damage) { d.set(schemas.HeaderSpecVersion, "0.3") }, 4,
			[]string{"version of CloudEvents: expected 1.0, found 0.3"}},
		{"appended without the check", func(d *damage) {
			d.publish(func(m *nats.Msg) { m.Header.Del(jetstream.ExpectedLastSubjSeqHeader) })
		}, 4, []string{"expected last message at the append: expected 3, found none"}},
		{"another history", func(d *damage) { d.set(schemas.HeaderPrevHash, "abc") }, 4,
			[]string{"previous hash: expected ", ", found abc"}},
		{"payload against the schema", func(d *damage) {
			d.publish(func(m *nats.Msg) { m.Data = []byte(`{"turnIndex":"one"}`) })
		}, 4, []string{"schema: expected a valid turn_start", "turnIndex"}},
		{"payload is no JSON", func(d *damage) {
			d.publish(func(m *nats.Msg) { m.Data = []byte(`{`) })
		}, 4, []string{"schema: expected a valid turn_start"}},
		{"unknown type", func(d *damage) { d.set(schemas.HeaderType, "dev.loopbus.party.v1") }, 4,
			[]string{"schema: expected a valid party", `unknown event type "party"`}},
		{"foreign type", func(d *damage) { d.set(schemas.HeaderType, "party") }, 4, []string{`type "party"`}},
		{"no time", func(d *damage) { d.publish(func(m *nats.Msg) { m.Header.Del(schemas.HeaderTime) }) }, 4,
			[]string{"time"}},
		{"first event of a commit is another", func(d *damage) { d.span("v2 5-6") }, 4,
			[]string{"event 4: commit: expected one from event 4 on, found v2 5-6 (message 4 of the stream)"}},
		{"commit of a later format", func(d *damage) { d.span("v3 4-6") }, 4,
			[]string{"commit: expected one from event 4 on, found v3 4-6"}},
		{"prefix of a commit", func(d *damage) { d.span("v2 4-7") }, 7,
			[]string{"event 7: commit: expected the events 4 to 7", "has 3 of its 4 events"}},
		{"more than the commit", func(d *damage) { d.span("v2 4-5") }, 7,
			[]string{"commit: expected the events 4 to 5", "has 3 of its 2 events"}},
		{"events missing inside a commit", func(d *damage) { d.replace("s1/5", "s1/6") }, 5,
			[]string{"event 5: commit: expected the events 4 to 6", `id is "s1/6" and not s1/5`}},
		{"commit of another history", func(d *damage) {
			d.commit(func(m *nats.Msg) { m.Header.Set(schemas.HeaderPrevious, "abc") })
		}, 4, []string{"previous hash: expected ", ", found abc"}},
		{"commit appended without the check", func(d *damage) {
			d.commit(func(m *nats.Msg) { m.Header.Del(jetstream.ExpectedLastSubjSeqHeader) })
		}, 4, []string{"expected last message at the append: expected 3, found none"}},
		{"commit that says it is something else", func(d *damage) {
			d.commit(func(m *nats.Msg) { m.Header.Set(schemas.HeaderContentType, "application/json") })
		}, 4, []string{"content type: expected application/cloudevents-batch+json, found application/json"}},
		{"event of a commit against the schema", func(d *damage) { d.replace(`"turnIndex":5`, `"turnIndex":"five"`) }, 5,
			[]string{"event 5: schema: expected a valid turn_start", "turnIndex"}},
		{"unknown type in a commit", func(d *damage) { d.replace("turn_start", "party") }, 4,
			[]string{"schema: expected a valid party"}},
		{"commit is no JSON", func(d *damage) { d.replace(`"data":{`, `"x":{1},"data":{`) }, 4,
			[]string{"event 4: commit: expected a batch in JSON"}},
		{"commit cut off", func(d *damage) { d.commit(func(m *nats.Msg) { m.Data = m.Data[:len(m.Data)-9] }) }, 6,
			[]string{"event 6: commit: expected the events 4 to 6"}},
		{"big payload missing", func(d *damage) {
			if err := d.blobs().Delete(d.t.Context(), d.appendBig()); err != nil {
				d.t.Fatal(err)
			}
		}, 4, []string{"payload in the object store: expected nats://agent_blobs/", "object not found"}},
		{"big payload replaced", func(d *damage) {
			if _, err := d.blobs().PutString(d.t.Context(), d.appendBig(), "{}"); err != nil {
				d.t.Fatal(err)
			}
		}, 4, []string{"payload in the object store: expected nats://agent_blobs/", "has the SHA-256 44136f"}},
		{"last event deleted, snapshot there", func(d *damage) { d.snapshot(3); d.delete(3) }, 3,
			[]string{"snapshot version 1: expected an event of the log, found the log ends at 2"}},
		{"snapshot of another history", func(d *damage) {
			d.snapshot(2)
			d.rewriteSnapshot(`"hash":"`, `"hash":"00`)
		}, 2, []string{"snapshot version 1: expected the hash ", "of message 2, found 00"}},
		{"snapshot altered", func(d *damage) {
			d.snapshot(2)
			d.rewriteSnapshot("\nstate", "\nother")
		}, 2, []string{"snapshot version 1: expected a readable state", "has the SHA-256"}},
		{"a server's answer in place of the snapshot", func(d *damage) {
			d.snapshot(2)
			d.publish(func(*nats.Msg) {})
			kv, err := d.js.KeyValue(d.t.Context(), schemas.BucketSnapshots)
			if err == nil {
				_, err = kv.PutString(d.t.Context(), "s1.v1", `{"stream":"AGENT_UPD","seq":7}`)
			}
			if err != nil {
				d.t.Fatal(err)
			}
		}, 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, js := newJetStream(t, eventstore.Options{})
			stream, err := js.Stream(t.Context(), schemas.StreamEvents)
			if err != nil {
				t.Fatal(err)
			}
			d := &damage{t: t, js: js, stream: stream, log: open(t, s, "s1")}
			mustAppendEach(t, d.log, event("s1", 1, "a"), event("s1", 2, "a"), event("s1", 3, "a"))
			c.hurt(d)
			r, err := s.Verify(ctxOf(t), "s1", eventstore.VerifyOptions{Version: 1})
			if err != nil {
				t.Fatal(err)
			}
			if c.seq == 0 {
				if !r.OK() || r.Events != 4 {
					t.Fatalf("%d events, fault %v", r.Events, r.Bad)
				}
				return
			}
			if r.OK() || r.Bad.Seq != c.seq {
				t.Fatalf("fault %v, want one of event %d", r.Bad, c.seq)
			}
			for _, want := range c.wants {
				if !strings.Contains(r.Bad.Error(), want) {
					t.Errorf("fault %q does not say %q", r.Bad, want)
				}
			}
		})
	}
}

// rewriteSnapshot changes the snapshot's value.
func (d *damage) rewriteSnapshot(old, replacement string) {
	d.t.Helper()
	kv, err := d.js.KeyValue(d.t.Context(), schemas.BucketSnapshots)
	if err != nil {
		d.t.Fatal(err)
	}
	entry, err := kv.Get(d.t.Context(), "s1.v1")
	if err != nil {
		d.t.Fatal(err)
	}
	value := bytes.Replace(entry.Value(), []byte(old), []byte(replacement), 1)
	if bytes.Equal(value, entry.Value()) {
		d.t.Fatalf("no %q in the snapshot %q", old, value)
	}
	if _, err := kv.Put(d.t.Context(), "s1.v1", value); err != nil {
		d.t.Fatal(err)
	}
}

// putSnapshot puts a state in place of the snapshot's, with the digest it has to have.
func (d *damage) putSnapshot(stored []byte, gzip bool) {
	d.t.Helper()
	kv, err := d.js.KeyValue(d.t.Context(), schemas.BucketSnapshots)
	if err != nil {
		d.t.Fatal(err)
	}
	entry, err := kv.Get(d.t.Context(), "s1.v1")
	if err != nil {
		d.t.Fatal(err)
	}
	var header map[string]any
	line, _, _ := bytes.Cut(entry.Value(), []byte("\n"))
	if err := json.Unmarshal(line, &header); err != nil {
		d.t.Fatal(err)
	}
	header["digest"], header["gzip"] = fmt.Sprintf("%x", sha256.Sum256(stored)), gzip
	line, err = json.Marshal(header)
	if err != nil {
		d.t.Fatal(err)
	}
	if _, err := kv.Put(d.t.Context(), "s1.v1", append(append(line, '\n'), stored...)); err != nil {
		d.t.Fatal(err)
	}
}

// bomb is a gzip of a few hundred kilobytes that holds 272 MiB.
func bomb(t *testing.T) []byte {
	t.Helper()
	var member bytes.Buffer
	w := gzip.NewWriter(&member)
	_, err := w.Write(make([]byte, 16<<20))
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return bytes.Repeat(member.Bytes(), 17)
}

// A snapshot that does not belong to the log is not an error, and not trusted either.
func TestSnapshotNotTrusted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		hurt func(d *damage)
		want string
	}{
		{"another hash", func(d *damage) { d.rewriteSnapshot(`"hash":"`, `"hash":"00`) }, "with the hash 00"},
		{"another place", func(d *damage) { d.rewriteSnapshot(`"streamSeq":2`, `"streamSeq":1`) },
			"not in the message that it names"},
		{"place gone", func(d *damage) { d.rewriteSnapshot(`"streamSeq":2`, `"streamSeq":9`) }, "not in the log"},
		{"beyond the head", func(d *damage) { d.rewriteSnapshot(`"seq":2`, `"seq":4`) }, "the log ends at 3"},
		{"another version inside", func(d *damage) { d.rewriteSnapshot(`"version":1`, `"version":2`) }, "version 2"},
		{"altered state", func(d *damage) { d.rewriteSnapshot("\nstate", "\nother") }, "SHA-256"},
		{"a small one that is large", func(d *damage) { d.putSnapshot(bomb(d.t), true) }, "more than 268435456"},
		{"no snapshot at all", func(d *damage) { d.rewriteSnapshot("\n", " ") }, "no header line"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var logged bytes.Buffer
			s, js := newJetStream(t, eventstore.Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
			d := &damage{t: t, js: js, log: open(t, s, "s1")}
			mustAppendEach(t, d.log, event("s1", 1, "a"), event("s1", 2, "a"), event("s1", 3, "a"))
			d.snapshot(2)
			c.hurt(d)
			state, seq, err := open(t, s, "s1").Snapshot(ctxOf(t), 1)
			if state != nil || seq != 0 || err != nil {
				t.Errorf("snapshot %q at %d, %v", state, seq, err)
			}
			for _, want := range []string{"level=WARN", "snapshot ignored", "session=s1", c.want} {
				if !strings.Contains(logged.String(), want) {
					t.Errorf("log %q does not say %q", logged.String(), want)
				}
			}
		})
	}
}

// Reading notices a gap too, and does not hang on it.
func TestReadDamaged(t *testing.T) {
	t.Parallel()
	s, js := newJetStream(t, eventstore.Options{})
	stream, err := js.Stream(t.Context(), schemas.StreamEvents)
	if err != nil {
		t.Fatal(err)
	}
	d := &damage{t: t, js: js, stream: stream, log: open(t, s, "s1")}
	mustAppendEach(t, d.log, event("s1", 1, "a"), event("s1", 2, "a"), event("s1", 3, "a"))
	d.delete(2)
	n, last := 0, error(nil)
	for _, err := range s.Read(context.Background(), "s1", 1) {
		n, last = n+1, err
	}
	if n != 2 || last == nil || !strings.Contains(last.Error(), "log damaged: event 3 follows event 1") {
		t.Errorf("%d yielded, error %v", n, last)
	}
	d.span("v3 4-6")
	if _, err := s.Open(ctxOf(t), "s1"); err == nil ||
		!strings.Contains(err.Error(), "log damaged: message 4 of the stream") {
		t.Errorf("open behind a message of a later format: %v", err)
	}
}
