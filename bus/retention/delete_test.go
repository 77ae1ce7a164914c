package retention_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/retention"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// A deletion that crashes after any of its steps is finished by the next one, or by a runner that opens the session.
// Whatever was sent to the session after the fence stays, and nothing of other sessions goes.
func TestDeletionIsCompletedAfterCrashAtAnyStep(t *testing.T) {
	t.Parallel()
	steps := []string{
		"record",
		"fence",
		"bounds",
		"timers",
		"inbox",
		"cancel",
		"calls",
		"updates",
		"dead letters",
		"snapshots",
		"payloads",
		"log",
		"index",
		"all",
	}
	var seen []string
	w := newWorld(t)
	w.fill("other")
	before, chunks := w.places("other"), w.chunks()
	if len(before) != 8 {
		t.Fatalf("the other session has only %v", before)
	}
	for i, crash := range steps {
		for _, who := range []string{"deleter", "runner"} {
			name := fmt.Sprintf("s%d%s", i, who)
			w.fill(name)
			dying := w.deleter(retention.Options{AfterStep: func(step string) error {
				if !slices.Contains(seen, step) {
					seen = append(seen, step)
				}
				if step == crash {
					return errCrash
				}
				return nil
			}})
			if _, err := dying.Delete(bustest.Deadline(t), retention.Request{Session: name}); !errors.Is(err, errCrash) {
				t.Fatalf("crash after %s: %v", crash, err)
			}
			if i >= slices.Index(steps, "bounds") {
				w.publish(w.conn.Subjects().Command(name, schemas.CommandPrompt), "anew")
				w.publish(w.conn.Subjects().LiveUpdate(name), `{}`)
			}
			var want []string
			if i >= slices.Index(steps, "bounds") {
				want = []string{"AGENT_CMD ", "AGENT_UPD "}
			}
			var err error
			d := w.deleter(retention.Options{})
			switch {
			case who == "runner" && crash != "record":
				if _, err := w.open(name); i < slices.Index(steps, "log") && !errors.Is(err, eventstore.ErrDeleting) {
					t.Errorf("crash after %s: the session opens: %v", crash, err)
				}
				err = d.Resume(bustest.Deadline(t), name)
			case i < slices.Index(steps, "bounds") || crash == "record":
				_, err = d.Delete(bustest.Deadline(t), retention.Request{Session: name})
			default:
				if _, err = d.Delete(bustest.Deadline(t), retention.Request{Session: name}); errors.Is(
					err,
					retention.ErrNoSession,
				) {
					err = nil // all of it was deleted already
				}
			}
			if err != nil {
				t.Errorf("crash after %s, the %s goes on: %v", crash, who, err)
			}
			got := w.places(name)
			ok := len(got) == len(want)
			for i := range want {
				ok = ok && strings.HasPrefix(got[i], want[i])
			}
			if !ok {
				t.Errorf("crash after %s, the %s went on, left: %q", crash, who, got)
			}
			if l, err := w.open(name); err != nil {
				t.Errorf("crash after %s: %v", crash, err)
			} else if seq, _ := l.Stored(); seq != 0 {
				t.Errorf("crash after %s: the log is at %d", crash, seq)
			}
		}
	}
	if d := cmp.Diff(steps, seen); d != "" {
		t.Errorf("steps (-want +got):\n%s", d)
	}
	if d := cmp.Diff(before, w.places("other")); d != "" || w.chunks() != chunks {
		t.Errorf("the other session (-before +after), %d chunks, before %d:\n%s", w.chunks(), chunks, d)
	}
	if r, err := w.store.Verify(bustest.Deadline(t), "other", eventstore.VerifyOptions{Version: 7}); err != nil ||
		!r.OK() {
		t.Errorf("the other session: %+v, %v", r, err)
	}
}

// A deletion that is resumed late does no harm to the session that has begun anew.
func TestLateDeleterDeletesNothingOfNewSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	steps := []string{"fence", "bounds", "inbox", "index", "snapshots", "payloads", "log"}
	for i, step := range slices.Concat(steps, steps) {
		force := i < len(steps)
		name := fmt.Sprintf("s%d", i)
		w.fill(name)
		held, goOn := make(chan struct{}), make(chan struct{})
		late := w.deleter(retention.Options{AfterStep: func(at string) error {
			if at == step {
				close(held)
				<-goOn
			}
			return nil
		}})
		ended := make(chan error, 1)
		go func() {
			_, err := late.Delete(bustest.Deadline(t), retention.Request{Session: name, Force: force})
			ended <- err
		}()
		<-held
		w.must(w.deleter(retention.Options{}).Resume(bustest.Deadline(t), name))
		w.fill(name) // it begins anew
		w.sent(name)
		var last uint64
		for m, err := range w.store.Messages(bustest.Deadline(t), name) {
			w.must(err)
			last = m.Stream
		}
		w.entry(name, last)
		before := w.places(name)
		close(goOn)
		w.must(<-ended)
		after := w.places(name)
		if step != "snapshots" && step != "payloads" && step != "log" { // they are made anew
			before = slices.DeleteFunc(before, func(s string) bool {
				return strings.Contains(s, "snapshot") ||
					strings.Contains(s, "OBJ_")
			})
			after = slices.DeleteFunc(after, func(s string) bool {
				return strings.Contains(s, "snapshot") ||
					strings.Contains(s, "OBJ_")
			})
		}
		if d := cmp.Diff(before, after); d != "" {
			t.Errorf("held after %s, by force %t (-before +after):\n%s", step, force, d)
		}
		r, err := w.store.Verify(bustest.Deadline(t), name, eventstore.VerifyOptions{})
		if err != nil || !r.OK() || r.Events != 3 || r.Blobs != 1 {
			t.Errorf("held after %s, by force %t: %+v, %v", step, force, r, err)
		}
	}
}

// What is under way keeps a session, unless it is forced.
func TestABusySessionIsNotDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	d := w.deleter(retention.Options{AbortWait: time.Millisecond})
	w.log("run", &schemas.AgentStart{})
	w.log("queued", &schemas.CommandAccepted{CommandID: "c1", Kind: schemas.CommandPrompt, Queue: schemas.QueuePrompts})
	w.log("waiting", small())
	w.publish(w.conn.Subjects().Command("waiting", schemas.CommandPrompt), "hi")
	w.log("damaged", small())
	s, err := w.conn.JetStream().Stream(bustest.Deadline(t), schemas.StreamEvents)
	w.must(err)
	_, err = w.conn.Events().Publish(bustest.Deadline(t), w.conn.Subjects().Event("damaged"), []byte("what is this"))
	w.must(err)
	for session, why := range map[string]string{"run": "a run is under way", "queued": "inputs that wait: 1",
		"waiting": "commands in its inbox: 1", "none": retention.ErrNoSession.Error()} {
		before := w.places(session)
		_, err := d.Delete(bustest.Deadline(t), retention.Request{Session: session})
		if err == nil || !strings.Contains(err.Error(), why) || errors.Is(err, retention.ErrBusy) != (session != "none") {
			t.Errorf("session %s: %v", session, err)
		}
		if d := cmp.Diff(before, w.places(session)); d != "" {
			t.Errorf("session %s was changed (-before +after):\n%s", session, d)
		}
	}
	for _, session := range []string{"run", "queued", "waiting", "damaged"} {
		if _, err := d.Delete(bustest.Deadline(t), retention.Request{Session: session, Force: true}); err != nil {
			t.Errorf("session %s: %v", session, err)
		}
		if left := w.places(session); len(left) > 0 {
			t.Errorf("session %s: left %q", session, left)
		}
	}
	info, err := s.Info(bustest.Deadline(t))
	if err != nil || info.State.Msgs != 0 {
		t.Errorf("%d messages of logs are left, %v", info.State.Msgs, err)
	}
	w.log("moved", small())
	if _, err := d.Delete(bustest.Deadline(t), retention.Request{Session: "moved", At: 1}); !errors.Is(
		err,
		retention.ErrBusy,
	) {
		t.Errorf("a log that has gone on: %v", err)
	}
}

// Many who delete the same at once delete it once, and a concurrent writer stores nothing that stays.
func TestManyDeletersAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 5 {
		name := fmt.Sprintf("s%d", i)
		w.fill(name)
		var g errgroup.Group
		for range 4 {
			g.Go(func() error {
				_, err := w.deleter(retention.Options{}).Delete(bustest.Deadline(t), retention.Request{Session: name, Force: true})
				if errors.Is(err, retention.ErrNoSession) || errors.Is(err, retention.ErrBusy) {
					err = nil
				}
				return err
			})
		}
		w.must(g.Wait())
		w.must(w.deleter(retention.Options{}).Resume(bustest.Deadline(t), name))
		if left := w.places(name); len(left) > 0 {
			t.Errorf("session %s: left %q", name, left)
		}
	}
}

// A runner that has the session in memory may write its entry of the index late, at any time while the session is being
// deleted. The entry goes with the log that it is the fold of, however the deletion goes on.
func TestLateIndexEntryIsDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i, late := range []string{"bounds", "calls", "snapshots", "payloads", "log"} {
		for _, crash := range []bool{false, true} {
			name := fmt.Sprintf("s%d-%t", i, crash)
			w.fill(name)
			var stream uint64
			for m, err := range w.store.Messages(bustest.Deadline(t), name) {
				w.must(err)
				stream = m.Stream
			}
			_, err := w.deleter(retention.Options{AfterStep: func(step string) error {
				if step != late {
					return nil
				}
				w.entry(name, stream)
				if crash {
					return errCrash
				}
				return nil
			}}).Delete(bustest.Deadline(t), retention.Request{Session: name})
			if crash != errors.Is(err, errCrash) {
				t.Fatalf("after %s: %v", late, err)
			}
			w.must(w.deleter(retention.Options{}).Resume(bustest.Deadline(t), name))
			if left := w.places(name); len(left) > 0 {
				t.Errorf("written after %s, crash %v: left %q", late, crash, left)
			}
		}
	}
}

// The stream of updates is in memory, and gone with its server until a runner creates it again. Nothing waits for that.
func TestDeletionWithoutTheStreamOfUpdates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill("s1")
	w.fill("s2")
	crashing := w.deleter(retention.Options{AfterStep: func(step string) error {
		if step == "calls" {
			return errCrash
		}
		return nil
	}})
	if _, err := crashing.Delete(bustest.Deadline(t), retention.Request{Session: "s1"}); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	w.must(w.conn.JetStream().DeleteStream(bustest.Deadline(t), schemas.StreamUpdates))
	d := w.deleter(retention.Options{})
	w.must(d.Resume(bustest.Deadline(t), "s1"))
	_, err := d.Delete(bustest.Deadline(t), retention.Request{Session: "s2"})
	w.must(err)
	if left := append(w.places("s1"), w.places("s2")...); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}
