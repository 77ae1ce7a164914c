package retention_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/retention"
	"github.com/loopbus/loopbus/bus/retention/archive"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// An archive brings a deleted session back as it was, also in a second attempt; what is not an archive, or was changed,
// brings nothing back.
func TestAnArchiveIsRestored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill("s1")
	_, err := w.conn.Events().Publish(bustest.Deadline(t), w.conn.Subjects().Event("s1"), []byte("a server's answer"))
	w.must(err)
	w.log("s1", small(), big())
	var file bytes.Buffer
	written, err := archive.Write(bustest.Deadline(t), w.store, "s1", &file)
	if err != nil || written.Events != 5 || written.Payloads != 2 {
		t.Fatalf("%+v, %v", written, err)
	}
	restore := func(text string) error {
		_, err := archive.Restore(bustest.Deadline(t), w.conn, w.store, strings.NewReader(text))
		return err
	}
	w.log("s1", small())
	if err := restore(file.String()); !errors.Is(err, archive.ErrExists) {
		t.Errorf("restored over a log: %v", err)
	}
	if _, err := w.deleter(retention.Options{}).Delete(bustest.Deadline(t),
		retention.Request{Session: "s1", At: written.Tail}); !errors.Is(err, retention.ErrBusy) {
		t.Errorf("a log that went on was deleted: %v", err)
	}
	_, err = w.deleter(retention.Options{}).Delete(bustest.Deadline(t), retention.Request{Session: "s1"})
	w.must(err)
	lines := strings.SplitAfter(file.String(), "\n")
	const extra = `{"payload":{"ref":"nats://agent_blobs/s1/W/` +
		`ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb","data":"YQ=="}}` + "\n" // the letter a
	for name, text := range map[string]string{
		"cut off":           strings.Join(lines[:len(lines)-2], ""),
		"a message missing": strings.Join(append(append([]string{}, lines[:3]...), lines[5:]...), ""),
		"a payload missing": strings.Join(append(append([]string{}, lines[:1]...), lines[2:]...), ""),
		"a payload too many": lines[0] + extra +
			strings.Replace(strings.Join(lines[1:], ""), `"payloads":2`, `"payloads":3`, 1),
		"changed":         strings.Replace(file.String(), `"code":"small"`, `"code":"smell"`, 1),
		"another session": strings.Replace(file.String(), `"session":"s1"`, `"session":"s2"`, 1),
		"a server's header": strings.Replace(file.String(), `"header":{`,
			`"header":{"Nats-Trace-Dest":["agent.cmd.s2.abort"],`, 1),
		"a server's status": strings.Replace(file.String(), `"header":{`, `"header":{"status":["404"],`, 1),
		"a header in another's name": strings.Replace(file.String(), `"header":{`,
			`"header":{"X: y\r\nNats-Rollup":["sub"],`, 1),
		"none": "hello",
	} {
		if err := restore(text); !errors.Is(err, archive.ErrBad) || len(w.places("s1")) > 0 || text == file.String() {
			t.Errorf("%s: %v, left %q", name, err, w.places("s1"))
		}
	}
	w.must(restore(file.String()))
	stream, err := w.conn.JetStream().Stream(bustest.Deadline(t), schemas.StreamEvents)
	w.must(err)
	w.must(stream.Purge(bustest.Deadline(t), jetstream.WithPurgeSubject("agent.evt.s1"), jetstream.WithPurgeKeep(0)))
	w.must(restore(file.String()))
	w.must(restore(file.String())) // all of it is there
	r, err := w.store.Verify(bustest.Deadline(t), "s1", eventstore.VerifyOptions{})
	if err != nil || !r.OK() || r.Events != 5 || r.Blobs != 2 {
		t.Errorf("%+v, %v", r, err)
	}
	var again bytes.Buffer
	second, err := archive.Write(bustest.Deadline(t), w.store, "s1", &again)
	if second.Tail = written.Tail; err != nil || second != written {
		t.Errorf("archived again: %+v instead of %+v, %v", second, written, err)
	}
	w.log("s1", small()) // it goes on
}
