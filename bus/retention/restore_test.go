package retention_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/retention"
	"github.com/loopbus/loopbus/bus/retention/archive"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// An archive is restored after a deletion that crashed at any of its steps. The deletion, when it is resumed later,
// deletes nothing of the restored session.
func TestRestoreAfterAnInterruptedDeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, crash := range []string{
		"record", "fence", "bounds", "timers", "calls", "snapshots", "payloads", "log", "index",
	} {
		t.Run(crash, func(t *testing.T) {
			name := "s-" + crash
			w.fill(name)
			var file bytes.Buffer
			if _, err := archive.Write(bustest.Deadline(t), w.store, name, &file); err != nil {
				t.Fatal(err)
			}
			dying := w.deleter(retention.Options{AfterStep: func(step string) error {
				if step == crash {
					return errCrash
				}
				return nil
			}})
			if _, err := dying.Delete(bustest.Deadline(t), retention.Request{Session: name}); !errors.Is(err, errCrash) {
				t.Fatal(err)
			}
			_, err := archive.Restore(bustest.Deadline(t), w.conn, w.store, strings.NewReader(file.String()))
			if err != nil {
				t.Errorf("restore: %v", err)
			}
			if err := w.deleter(retention.Options{}).Resume(bustest.Deadline(t), name); err != nil {
				t.Errorf("resume: %v", err)
			}
			r, err := w.store.Verify(bustest.Deadline(t), name, eventstore.VerifyOptions{})
			if err != nil || !r.OK() || r.Events != 3 || r.Blobs != 1 {
				t.Errorf("%+v, %v", r, err)
			}
			w.log(name, small()) // it goes on
		})
	}
}

// A restore that finds a deletion in progress completes it, and the deleter that was slower takes nothing of what is
// restored.
func TestRestoreDuringADeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, step := range []string{"fence", "snapshots", "snapshots", "payloads", "payloads", "log"} {
		w.log("s1", slices.Repeat([]schemas.EventData{big()}, 20)...)
		var file bytes.Buffer
		if _, err := archive.Write(bustest.Deadline(t), w.store, "s1", &file); err != nil {
			t.Fatal(err)
		}
		restored := make(chan error, 1)
		d := w.deleter(retention.Options{AfterStep: func(after string) error {
			if after == step {
				go func() {
					_, err := archive.Restore(bustest.Deadline(t), w.conn, w.store, bytes.NewReader(file.Bytes()))
					restored <- err
				}()
			}
			return nil
		}})
		_, err := d.Delete(bustest.Deadline(t), retention.Request{Session: "s1"})
		w.must(err)
		w.must(bustest.Within(t, restored))
		r, err := w.store.Verify(bustest.Deadline(t), "s1", eventstore.VerifyOptions{})
		if err != nil || !r.OK() || r.Events != 20 || r.Blobs != 20 {
			t.Errorf("restored after the step %s: %+v, %v", step, r, err)
		}
		_, err = w.deleter(retention.Options{}).Delete(bustest.Deadline(t), retention.Request{Session: "s1"})
		w.must(err)
	}
}

// A log that no runner has written can refer to a payload of another session. Its deletion leaves that payload, and an
// archive of it is refused.
func TestDeletionLeavesPayloadsOfOtherSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.log("s1", big())
	var file bytes.Buffer
	if _, err := archive.Write(bustest.Deadline(t), w.store, "s1", &file); err != nil {
		t.Fatal(err)
	}
	for m, err := range w.store.Messages(bustest.Deadline(t), "s1") {
		w.must(err)
		forged := nats.NewMsg(w.conn.Subjects().Event("s2"))
		for name, values := range m.Header {
			if !strings.HasPrefix(name, "Nats-") {
				forged.Header[name] = values
			}
		}
		forged.Data = bytes.ReplaceAll(m.Payload, []byte(`"id":"s1/`), []byte(`"id":"s2/`))
		_, err = w.conn.Events().PublishMsg(bustest.Deadline(t), forged)
		w.must(err)
	}
	file.Reset()
	if _, err := archive.Write(bustest.Deadline(t), w.store, "s2", &file); err != nil {
		t.Fatal(err)
	}
	done, err := w.deleter(retention.Options{}).Delete(bustest.Deadline(t), retention.Request{Session: "s2"})
	if err != nil || done.Events != 1 || done.Shared != 1 {
		t.Errorf("%+v, %v", done, err)
	}
	_, err = archive.Restore(bustest.Deadline(t), w.conn, w.store, bytes.NewReader(file.Bytes()))
	if !errors.Is(err, archive.ErrBad) {
		t.Errorf("an archive with a payload of another session is restored: %v", err)
	}
	r, err := w.store.Verify(bustest.Deadline(t), "s1", eventstore.VerifyOptions{})
	if err != nil || !r.OK() || r.Blobs != 1 {
		t.Errorf("%+v, %v", r, err)
	}
}

// A restore that is refused, because its session has begun before it or has gone on during it, leaves no payload that
// no deletion would find.
func TestRefusedRestoreLeavesNoPayload(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, during := range []bool{false, true} {
		w.log("s1", big(), big())
		file := w.putAway("s1")
		runner, err := w.open("s1")
		w.must(err)
		begin := func() {
			w.must(runner.Append(bustest.Deadline(t), schemas.Event{Session: "s1", Seq: 1, Time: time.Now(), Source: "/r",
				Data: big()}))
			w.must(runner.Flush(bustest.Deadline(t)))
		}
		restore := &early{bytes.NewReader(file), false, begin}
		if !during {
			begin()
			restore.begun = func() {}
		}
		if _, err = archive.Restore(bustest.Deadline(t), w.conn, w.store, restore); !errors.Is(err, archive.ErrExists) {
			t.Errorf("restored: %v", err)
		}
		r, err := w.store.Verify(bustest.Deadline(t), "s1", eventstore.VerifyOptions{})
		if err != nil || !r.OK() || r.Blobs != 1 {
			t.Errorf("what has begun is %+v, %v", r, err)
		}
		w.deleted("s1", time.Millisecond)
		if left := w.places("s1"); len(left) > 0 || w.chunks() > 0 {
			t.Errorf("begun during the restore: %t, left: %v, %d chunks", during, left, w.chunks())
		}
	}
}
