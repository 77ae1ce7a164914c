package retention_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/retention"
	"github.com/loopbus/loopbus/schemas"
)

// sent has a command sent to a session, and another rejected.
func (w *world) sent(session string) {
	w.t.Helper()
	w.publish(w.conn.Subjects().Command(session, schemas.CommandPrompt), "anew")
	w.publish(w.conn.Subjects().Dead(schemas.StreamCommands, session), `{}`)
}

// streamsOf are the streams that have something of a session.
func (w *world) streamsOf(session string) (names []string) {
	w.t.Helper()
	for _, place := range w.places(session) {
		names = append(names, strings.Fields(place)[0])
	}
	return names
}

// What is sent to a session after the deleter has looked for it stays and begins a new session, by force or not, and
// whoever completes the deletion.
func TestWhatIsSentDuringADeletionStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	byForce := func(session string) retention.Request { return retention.Request{Session: session, Force: true} }
	unforced := func(session string) retention.Request { return retention.Request{Session: session} }
	deletes := func(d *retention.Deleter, request func(string) retention.Request) func(session string) error {
		return func(session string) error {
			_, err := d.Delete(bustest.Deadline(t), request(session))
			return err
		}
	}
	later := w.deleter(retention.Options{AbortWait: time.Nanosecond})
	resumes := func(session string) error { return later.Resume(bustest.Deadline(t), session) }
	for i, c := range []struct {
		step  string
		first func(session string) retention.Request
		then  func(session string) error // if the first deleter dies
	}{
		{step: "record", first: unforced},
		{step: "fence", first: unforced},
		{step: "bounds", first: unforced},
		{step: "log", first: unforced},
		{step: "fence", first: unforced, then: resumes},
		{step: "fence", first: unforced, then: deletes(later, unforced)},
		{step: "inbox", first: unforced, then: resumes},
		{step: "fence", first: unforced, then: deletes(later, byForce)},
		{step: "record", first: byForce},
		{step: "fence", first: byForce},
		{step: "bounds", first: byForce},
		{step: "log", first: byForce},
		{step: "fence", first: byForce, then: resumes},
		{step: "fence", first: byForce, then: deletes(later, unforced)},
		{step: "fence", first: byForce, then: deletes(later, byForce)},
		{step: "inbox", first: byForce, then: resumes},
	} {
		name := fmt.Sprintf("s%d", i)
		w.fill(name)
		first := w.deleter(retention.Options{AfterStep: func(step string) error {
			if step != c.step {
				return nil
			}
			w.sent(name)
			if c.then != nil {
				return errCrash
			}
			return nil
		}})
		err := deletes(first, c.first)(name)
		if errors.Is(err, errCrash) {
			err = c.then(name)
		}
		w.must(err)
		if d := cmp.Diff([]string{"AGENT_CMD", "AGENT_DEAD"}, w.streamsOf(name)); d != "" {
			t.Errorf("%d: sent after %q (-want +got):\n%s", i, c.step, d)
		}
	}
}

// A session that goes on after the deleter has looked at it is kept, whether the deleter lives or not.
func TestASessionThatGoesOnIsNotDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, dies := range []bool{false, true} {
		name := fmt.Sprintf("s-%t", dies)
		w.fill(name)
		var before []string
		first := w.deleter(retention.Options{AfterStep: func(step string) error {
			w.log(name, big())
			before = w.places(name)
			if dies {
				return errCrash
			}
			return nil
		}})
		_, err := first.Delete(bustest.Deadline(t), retention.Request{Session: name})
		if !dies && !errors.Is(err, retention.ErrBusy) || dies && !errors.Is(err, errCrash) {
			t.Errorf("the deleter dies %t: %v", dies, err)
		}
		w.must(w.deleter(retention.Options{}).Resume(bustest.Deadline(t), name))
		after := w.places(name)
		if d := cmp.Diff(withoutRecord(before), withoutRecord(after)); d != "" {
			t.Errorf("the deleter dies %t (-before +after):\n%s", dies, d)
		}
		if _, err = w.deleter(retention.Options{}).Delete(bustest.Deadline(t), retention.Request{Session: name}); err != nil {
			t.Errorf("the deleter died %t, deleted later: %v", dies, err)
		}
		if left := w.places(name); len(left) > 0 {
			t.Errorf("the deleter died %t, left: %q", dies, left)
		}
	}
}

func withoutRecord(places []string) (others []string) {
	for _, place := range places {
		if !strings.HasPrefix(place, "KV_agent_deletions") {
			others = append(others, place)
		}
	}
	return others
}

// A deleter that is late leaves the timers of the new session, too.
func TestLateDeleterLeavesTimers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill("s1")
	dying := w.deleter(retention.Options{AfterStep: func(step string) error {
		if step == "fence" {
			return errCrash
		}
		return nil
	}})
	_, err := dying.Delete(bustest.Deadline(t), retention.Request{Session: "s1", Force: true})
	if !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	late, err := w.deleter(retention.Options{}).Late(bustest.Deadline(t), "s1")
	w.must(err)
	w.must(w.deleter(retention.Options{}).Resume(bustest.Deadline(t), "s1"))
	w.log("s1", small())
	timers := bus.NewTimers(w.conn)
	w.must(timers.Schedule(bustest.Deadline(t), "s1", time.Now().Add(time.Hour), schemas.Timer{Name: "later"}))
	w.must(late())
	if waits, err := bustest.TimerWaits(bustest.Deadline(t), w.conn, "s1", "later"); err != nil || !waits {
		t.Errorf("the timer waits: %t, %v", waits, err)
	}
}

// A deleter by force whose deletion another has given up, and whose fence comes into the log of a new session, leaves
// that session with its timers.
func TestADeleterWithoutItsRecordDeletesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill("s1")
	other, timers := w.deleter(retention.Options{}), bus.NewTimers(w.conn)
	var before []string
	late := w.deleter(retention.Options{AfterStep: func(step string) error {
		if step != "record" {
			return nil
		}
		w.must(other.Resume(bustest.Deadline(t), "s1"))
		_, err := other.Delete(bustest.Deadline(t), retention.Request{Session: "s1"})
		w.must(err)
		w.fill("s1")
		w.must(timers.Schedule(bustest.Deadline(t), "s1", time.Now().Add(time.Hour), schemas.Timer{Name: "later"}))
		before = w.streamsOf("s1")
		return nil
	}})
	_, err := late.Delete(bustest.Deadline(t), retention.Request{Session: "s1", Force: true})
	w.must(err)
	if d := cmp.Diff(before, w.streamsOf("s1")); d != "" {
		t.Errorf("the new session (-before +after):\n%s", d)
	}
	w.log("s1", small()) // it goes on
}
