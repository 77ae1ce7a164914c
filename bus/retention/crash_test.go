package retention_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/retention"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// flood has the server answer n times at a subject, and returns when it has.
func (w *world) flood(subject string, n int) {
	w.t.Helper()
	for range n {
		w.must(w.conn.NATS().PublishMsg(&nats.Msg{Subject: w.conn.Subjects().LiveUpdate("other"), Reply: subject,
			Data: []byte(`{}`)}))
	}
	w.publish(w.conn.Subjects().LiveUpdate("other"), `{}`) // the stream has answered all before this
}

// A deletion that crashes after any of its steps is finished, however many answers of a server come to lie over its
// record and over its fence: nothing of the session is left, and what was sent to it meanwhile stays.
func TestServerAnswersDoNotBlockDeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	steps := []string{"record", "fence", "bounds", "timers", "calls", "snapshots", "payloads", "log", "index"}
	for i, crash := range steps {
		for n, answers := range []int{1, 200} {
			name := fmt.Sprintf("s%d-%d", i, n)
			w.fill(name)
			dying := w.deleter(retention.Options{AfterStep: func(step string) error {
				if step == crash {
					return errCrash
				}
				return nil
			}})
			if _, err := dying.Delete(bustest.Deadline(t), retention.Request{Session: name}); !errors.Is(err, errCrash) {
				t.Fatalf("crash after %s: %v", crash, err)
			}
			sent := i >= 2
			if sent {
				w.publish(w.conn.Subjects().Command(name, schemas.CommandPrompt), "anew")
			}
			w.flood("$KV.agent_deletions.session."+name, answers)
			w.flood(w.conn.Subjects().Event(name), answers)
			late := i >= 7 // the log is gone
			if _, err := w.open(name); i > 0 && !late && !errors.Is(err, eventstore.ErrDeleting) {
				t.Errorf("crash after %s, %d answers: the session opens: %v", crash, answers, err)
			}
			w.must(w.deleter(retention.Options{}).Resume(bustest.Deadline(t), name))
			if i == 0 { // nothing is deleted yet, and nobody has asked for it
				_, err := w.deleter(retention.Options{}).Delete(bustest.Deadline(t), retention.Request{Session: name})
				w.must(err)
			}
			want := 1 // the answers on the subject of the log
			if i == 0 {
				want = 0 // the deletion came after them
			}
			if sent {
				want++
			}
			if left := w.places(name); len(left) != want {
				t.Errorf("crash after %s, %d answers: left are %q", crash, answers, left)
			}
			if l, err := w.open(name); err != nil {
				t.Errorf("crash after %s, %d answers: %v", crash, answers, err)
			} else if seq, _ := l.Stored(); seq != 0 {
				t.Errorf("crash after %s, %d answers: the log is at %d", crash, answers, seq)
			}
		}
	}
}

// A deletion begins and ends also while answers keep coming to its record.
func TestADeletionInAFloodOfAnswers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill("s1")
	over, flooded := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(flooded)
		for {
			select {
			case <-over:
				return
			default:
				w.flood("$KV.agent_deletions.session.s1", 50)
			}
		}
	}()
	defer func() { close(over); <-flooded }()
	for range 3 {
		_, err := w.deleter(retention.Options{}).Delete(bustest.Deadline(t), retention.Request{Session: "s1"})
		w.must(err)
		answers := func(place string) bool { return strings.Contains(place, "agent_deletions") }
		if left := slices.DeleteFunc(w.places("s1"), answers); len(left) != 0 {
			t.Errorf("left are %v", left)
		}
		w.fill("s1")
	}
}

// A keeper takes the lease also where answers have filled its key.
func TestFloodOfServerAnswersIsNoLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ix := w.index()
	w.flood("$KV.agent_deletions.lease", 200)
	w.ended("s1", "", time.Hour, 1)
	bustest.Within(t, w.keeps("r1", ix))
}
