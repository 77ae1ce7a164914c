package retention_test

import (
	"bytes"
	"errors"
	"log/slog"
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

// written is the archive of a session.
func (w *world) written(session string) []byte {
	w.t.Helper()
	var file bytes.Buffer
	_, err := archive.Write(bustest.Deadline(w.t), w.store, session, &file)
	w.must(err)
	return file.Bytes()
}

// putAway is the archive of a session that was deleted.
func (w *world) putAway(session string) []byte {
	w.t.Helper()
	file := w.written(session)
	w.deleted(session, time.Millisecond)
	return file
}

// deleted deletes a session by force, and waits for as long for the end of a run.
func (w *world) deleted(session string, abortWait time.Duration) {
	w.t.Helper()
	d := w.deleter(retention.Options{AbortWait: abortWait})
	_, err := d.Delete(bustest.Deadline(w.t), retention.Request{Session: session, Force: true})
	w.must(err)
}

// dying is an archive whose reader dies behind a number of lines, the second time that it reads.
type dying struct {
	*bytes.Reader
	lines int
	again bool
	all   []byte
}

func newDying(file []byte, lines int) *dying {
	return &dying{bytes.NewReader(file), lines, false, file}
}

func (d *dying) Seek(offset int64, whence int) (int64, error) {
	d.again = true
	return d.Reader.Seek(offset, whence)
}

func (d *dying) Read(p []byte) (int, error) {
	if d.again {
		end := 0
		for range d.lines {
			end += 1 + bytes.IndexByte(d.all[end:], '\n')
		}
		left := end - (len(d.all) - d.Len())
		if left <= 0 {
			return 0, errCrash
		}
		p = p[:min(len(p), left)]
	}
	return d.Reader.Read(p)
}

func (w *world) restore(file []byte) error {
	_, err := archive.Restore(bustest.Deadline(w.t), w.conn, w.store, bytes.NewReader(file))
	return err
}

func (w *world) checkRestored(session string) {
	w.t.Helper()
	r, err := w.store.Verify(bustest.Deadline(w.t), session, eventstore.VerifyOptions{})
	if err != nil || !r.OK() || r.Events != 6 {
		w.t.Errorf("%+v, %v", r, err)
	}
}

// A restore that dies before its first message, or behind any, leaves a log that does not open, is not deleted by a
// keeper, and is completed by the next restore. It opens then.
func TestInterruptedRestoreDoesNotOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 3 { // three messages with two events
		w.log("s1", small(), small())
	}
	file := w.putAway("s1")
	for lines := 1; lines < bytes.Count(file, []byte("\n")); lines++ {
		_, err := archive.Restore(bustest.Deadline(t), w.conn, w.store, newDying(file, lines))
		if !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		if _, err := w.open("s1"); !errors.Is(err, eventstore.ErrRestoring) {
			t.Errorf("after %d lines: %v", lines, err)
		}
		_, err = w.deleter(retention.Options{}).Delete(bustest.Deadline(t), retention.Request{Session: "s1"})
		if !errors.Is(err, retention.ErrBusy) || !strings.Contains(err.Error(), "is being restored") {
			t.Errorf("deleted after %d lines: %v", lines, err)
		}
		w.must(w.deleter(retention.Options{}).Resume(bustest.Deadline(t), "s1"))
		w.must(w.restore(file))
		w.checkRestored("s1")
		w.must(w.restore(file)) // there is nothing left to do
		w.log("s1", small())
		if err := w.restore(file); !errors.Is(err, archive.ErrExists) {
			t.Errorf("restored over a session that has gone on: %v", err)
		}
		w.log("s1", small()) // it still opens
		w.deleted("s1", time.Millisecond)
	}
}

// An interrupted restore can be given up by deleting the session. Another archive is refused until then.
func TestInterruptedRestoreIsDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.log("s1", &schemas.AgentStart{}) // a run that nobody aborts
	w.log("s1", small())
	file := w.written("s1")
	w.log("s1", small(), small())
	other := w.putAway("s1")
	for _, lines := range []int{2, 3} {
		if _, err := archive.Restore(bustest.Deadline(t), w.conn, w.store, newDying(file, lines)); !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		if err := w.restore(other); !errors.Is(err, retention.ErrOtherRestore) {
			t.Errorf("another archive: %v", err)
		}
		w.deleted("s1", time.Hour) // which is longer than the test may take: nobody drives the run
		if left := w.places("s1"); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		w.must(w.restore(other))
		w.deleted("s1", time.Millisecond)
	}
}

// A deletion takes a session from a restore that is under way, and the restore says so.
func TestDeletionEndsARestore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.log("s1", small())
	file := w.putAway("s1")
	begun, err := w.deleter(retention.Options{}).BeginRestore(bustest.Deadline(t), "s1", "hash")
	w.must(err)
	_, err = w.deleter(retention.Options{}).Delete(bustest.Deadline(t), retention.Request{Session: "s1", Force: true})
	if !errors.Is(err, retention.ErrNoSession) {
		t.Errorf("deleted before its first message: %v", err)
	}
	if err := begun.End(bustest.Deadline(t)); !errors.Is(err, retention.ErrBusy) {
		t.Errorf("ended: %v", err)
	}
	w.must(w.restore(file))
}

// early is an archive that calls begun when it has been read once and the second time begins.
type early struct {
	*bytes.Reader
	again bool
	begun func()
}

func (e *early) Seek(offset int64, whence int) (int64, error) {
	e.again = true
	return e.Reader.Seek(offset, whence)
}

func (e *early) Read(p []byte) (int, error) {
	if e.again {
		e.again = false
		e.begun()
	}
	return e.Reader.Read(p)
}

// A session that a runner begins before the first message is restored is left alone, and no restore is in progress.
func TestRestoreLeavesASessionThatHasBegun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.log("s1", small(), small())
	file := w.putAway("s1")
	runner, err := w.open("s1")
	w.must(err)
	begun := func() {
		w.must(runner.Append(bustest.Deadline(t), schemas.Event{Session: "s1", Seq: 1, Time: time.Now(), Source: "/r",
			Data: small()}))
		w.must(runner.Flush(bustest.Deadline(t)))
	}
	_, err = archive.Restore(bustest.Deadline(t), w.conn, w.store, &early{bytes.NewReader(file), false, begun})
	if !errors.Is(err, archive.ErrExists) {
		t.Errorf("restored: %v", err)
	}
	_, err = w.deleter(retention.Options{}).Delete(bustest.Deadline(t), retention.Request{Session: "s1"})
	w.must(err)
}

// A restore that is called again goes on with its record, which is not taken for a server's answer.
func TestARestoreGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var log bustest.Log
	d := w.deleter(retention.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	one, err := d.BeginRestore(bustest.Deadline(t), "s1", "hash")
	w.must(err)
	two, err := d.BeginRestore(bustest.Deadline(t), "s1", "hash")
	w.must(err)
	if one.ID != two.ID || log.String() != "" {
		t.Errorf("%s, then %s: %s", one.ID, two.ID, log.String())
	}
	w.must(two.End(bustest.Deadline(t)))
	if err := one.End(bustest.Deadline(t)); !errors.Is(err, retention.ErrBusy) {
		t.Errorf("ended twice, without a log: %v", err)
	}
	m := nats.NewMsg(w.conn.Subjects().Event("s1"))
	m.Header.Set(schemas.HeaderRestore, one.ID)
	_, err = w.conn.Events().PublishMsg(bustest.Deadline(t), m)
	w.must(err)
	w.must(one.End(bustest.Deadline(t))) // the answer to the call before may have been lost
}

// A session that was restored is kept for as long as a rule keeps sessions after their last activity.
func TestKeeperKeepsWhatWasRestored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ended("s1", "", 20_000*time.Hour, 10)
	w.must(w.restore(w.putAway("s1")))
	ix := w.index()
	bustest.Eventually(t, "the index is there", func() bool { return len(ix.View().Entries) == 1 && !ix.View().Partial })
	k := w.keeper(retention.KeeperOptions{ID: "r1", Deleter: w.deleter(retention.Options{}), Index: ix,
		Rules: map[string]retention.Rule{"": {MaxAge: time.Hour}}})
	for deleted, clock := range []func() time.Time{time.Now, later} {
		k.SetTime(clock, clock)
		w.steady(clock())
		if n, err := k.Round(bustest.Deadline(t)); n != deleted || err != nil {
			t.Errorf("deleted %d, %v, want %d", n, err, deleted)
		}
	}
}
