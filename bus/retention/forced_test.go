package retention_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/bus/retention"
	"github.com/loopbus/loopbus/schemas"
)

// inbox is what the commands in a session's inbox say, in their order.
func (w *world) inbox(session string) (all []string) {
	w.t.Helper()
	filter := w.conn.Subjects().Prefix() + ".cmd.*." + session + ".>"
	_, err := natsio.ScanSubject(bustest.Deadline(w.t), w.conn.JetStream(), schemas.StreamCommands, filter, 1,
		math.MaxUint64, func(m natsio.Stored) error {
			all = append(all, string(m.Data))
			return nil
		})
	w.must(err)
	return all
}

func (w *world) prompt(session, text string) {
	w.t.Helper()
	w.publish(w.conn.Subjects().Command(session, schemas.CommandPrompt), text)
}

// dies deletes a session by force with a deleter that dies after a step.
func (w *world) dies(session, after string) {
	w.t.Helper()
	d := w.deleter(retention.Options{AbortWait: 20 * time.Millisecond, AfterStep: func(step string) error {
		if step == after {
			return errCrash
		}
		return nil
	}})
	_, err := d.Delete(bustest.Deadline(w.t), retention.Request{Session: session, Force: true})
	if !errors.Is(err, errCrash) {
		w.t.Fatalf("session %s, the deleter dies after %s: %v", session, after, err)
	}
}

// A deletion by force takes the commands that were sent before its abort, and no other, wherever the deleter dies and
// whoever completes the deletion.
func TestAForcedDeletionTakesWhatWasSentBeforeItsAbort(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	later := w.deleter(retention.Options{AbortWait: time.Nanosecond})
	for i, step := range []string{"fence", "bounds", "timers", "inbox", "calls", "payloads", "log", "index", "all"} {
		for who, then := range map[string]func(session string) error{
			"runner": func(session string) error { return later.Resume(bustest.Deadline(t), session) },
			"deleter": func(session string) error {
				_, err := later.Delete(bustest.Deadline(t), retention.Request{Session: session})
				return err
			},
			"deleter by force": func(session string) error {
				_, err := later.Delete(bustest.Deadline(t), retention.Request{Session: session, Force: true})
				return err
			},
		} {
			name := fmt.Sprintf("s%d-%d", i, len(who))
			w.fill(name)
			w.prompt(name, "before")
			aborted, err := w.conn.NATS().Subscribe(w.conn.Subjects().Command(name, schemas.CommandAbort),
				func(*nats.Msg) { w.prompt(name, "during the abort") })
			w.must(err)
			w.dies(name, step)
			w.must(aborted.Unsubscribe())
			w.prompt(name, "after the deleter")
			if err := then(name); err != nil && !errors.Is(err, retention.ErrNoSession) { // all of it was deleted already
				t.Errorf("the deleter died after %s, the %s goes on: %v", step, who, err)
			}
			if d := cmp.Diff([]string{"during the abort", "after the deleter"}, w.inbox(name)); d != "" {
				t.Errorf("the deleter died after %s, the %s went on (-want +got):\n%s", step, who, d)
			}
			if d := cmp.Diff([]string{"AGENT_CMD"}, w.streamsOf(name)); d != "" {
				t.Errorf("the deleter died after %s, the %s went on (-want +got):\n%s", step, who, d)
			}
		}
	}
}

// A timer of the deleted session that fires during its deletion goes, although it is in the inbox behind what was sent
// meanwhile.
func TestAForcedDeletionTakesTimersThatFireMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	timers := bus.NewTimers(w.conn)
	w.fill("s1")
	w.must(timers.Schedule(bustest.Deadline(t), "s1", time.Now().Add(time.Hour), schemas.Timer{Name: "later"}))
	w.dies("s1", "fence")
	w.prompt("s1", "anew")
	w.must(timers.Schedule(bustest.Deadline(t), "s1", time.Now(), schemas.Timer{Name: "soon"}))
	bustest.Eventually(t, "the timer is in the inbox", func() bool { return len(w.inbox("s1")) == 3 })
	w.must(w.deleter(retention.Options{}).Resume(bustest.Deadline(t), "s1"))
	if d := cmp.Diff([]string{"anew"}, w.inbox("s1")); d != "" {
		t.Errorf("the inbox (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"AGENT_CMD"}, w.streamsOf("s1")); d != "" {
		t.Errorf("left (-want +got):\n%s", d)
	}
}

// A deletion by force that an earlier version began has no bounds in its record. It takes what was sent before its
// fence.
func TestAForcedDeletionOfAnEarlierVersionIsCompleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill("s1")
	w.prompt("s1", "before")
	w.dies("s1", "fence")
	kv, err := w.conn.JetStream().KeyValue(bustest.Deadline(t), schemas.BucketDeletions)
	w.must(err)
	entry, err := kv.Get(bustest.Deadline(t), "session.s1")
	w.must(err)
	var record map[string]any
	w.must(json.Unmarshal(entry.Value(), &record))
	delete(record, "examined")
	delete(record, "force")
	old, err := json.Marshal(record)
	w.must(err)
	_, err = kv.Put(bustest.Deadline(t), "session.s1", old)
	w.must(err)
	w.sent("s1")
	w.must(w.deleter(retention.Options{}).Resume(bustest.Deadline(t), "s1"))
	if d := cmp.Diff([]string{"anew"}, w.inbox("s1")); d != "" {
		t.Errorf("the inbox (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"AGENT_CMD", "AGENT_DEAD"}, w.streamsOf("s1")); d != "" {
		t.Errorf("left (-want +got):\n%s", d)
	}
}
