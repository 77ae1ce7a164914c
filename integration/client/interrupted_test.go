package client_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus/inbox"
	"github.com/loopbus/loopbus/bus/retention"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

// interrupted begins a deletion whose deleter dies after a step.
func interrupted(t *testing.T, s *system.System, r retention.Request, after string) {
	t.Helper()
	died := errors.New("died")
	d := retention.NewDeleter(s.Client, retention.Options{Store: s.Store, AbortWait: time.Millisecond,
		AfterStep: func(step string) error {
			if step == after {
				return died
			}
			return nil
		}})
	if _, err := d.Delete(deadline(t), r); !errors.Is(err, died) {
		t.Fatalf("the deletion is not interrupted: %v", err)
	}
}

// finished returns once a runner has completed a deletion.
func finished(t *testing.T, s *system.System, session string) {
	t.Helper()
	system.Eventually(t, "the deletion is finished", func() bool {
		_, err := s.Store.Open(deadline(t), session)
		return err == nil
	})
}

// If a deleter dies, the runner completes the deletion when the session gets its next message. That message begins the
// new session, also if the deletion was by force.
func TestARunnerFinishesADeletion(t *testing.T) {
	t.Parallel()
	s := system.StartAlone(t, system.Options{Model: chunked(t, scripted.Text("Hello."))})
	for i, step := range []string{"fence", "inbox", "fence", "inbox"} {
		session, force := fmt.Sprintf("s%d", i), i < 2
		s.Prompted(t, session, "hi", 1)
		s.EmptyInbox(t)
		interrupted(t, s, retention.Request{Session: session, Force: force}, step)
		if _, err := s.Store.Open(deadline(t), session); !errors.Is(err, eventstore.ErrDeleting) {
			t.Errorf("after %s, by force %t: the session opens: %v", step, force, err)
		}
		s.Prompt(t, session, "hi again")
		finished(t, s, session)
		log := s.Until(t, session, "the end of the run", system.Ends(1))
		if said := system.Said(log); !slices.Equal(said, []string{"hi again"}) {
			t.Errorf("after %s, by force %t: the new session has %q", step, force, said)
		}
		s.Verify(t, session)
	}
}

// held is a model whose calls wait to be released, whatever happens to them.
type held struct {
	driver.Model
	begun, release chan struct{}
}

func (m held) Stream(ctx context.Context, req schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	m.begun <- struct{}{}
	<-m.release
	return m.Model.Stream(ctx, req)
}

// The runner that completes a deletion by force does not carry out commands that the deletion removes, whether it works
// on them or opens the session for them.
func TestARunnerThatFinishesADeletionForgets(t *testing.T) {
	t.Parallel()
	for _, loaded := range []bool{true, false} {
		model := held{chunked(t, scripted.Text("Hello.")), make(chan struct{}, 4), make(chan struct{})}
		s := system.StartAlone(t, system.Options{Model: model, AbortGrace: time.Minute})
		if loaded {
			s.Prompt(t, "s1", "too early")
			<-model.begun // which does not wait until the log is stored
			system.Eventually(t, "the session has a log", func() bool { return len(s.LogOf(t, "s1")) > 0 })
		} else {
			close(model.release)
			s.Prompted(t, "s1", "hi", 1)
			s.Stop()
			s.Prompt(t, "s1", "too early")
		}
		interrupted(t, s, retention.Request{Session: "s1", Force: true}, "fence")
		if loaded {
			close(model.release)
		} else {
			system.StartRunner(t, s.URL, system.RunnerOptions{Model: model, Inbox: inbox.Options{RunnerID: "second"}})
		}
		finished(t, s, "s1")
		s.EmptyInbox(t)
		if said := system.Said(s.Prompted(t, "s1", "anew", 1)); !slices.Equal(said, []string{"anew"}) {
			t.Errorf("loaded %t: the new session has %q", loaded, said)
		}
		s.Verify(t, "s1")
	}
}

// An abort that has a runner complete a deletion does not begin the new session, nor does the deleter's own.
func TestAnAbortThatFinishesADeletionBeginsNoSession(t *testing.T) {
	t.Parallel()
	model := chunked(t, scripted.Text("Hello."))
	s := system.StartAlone(t, system.Options{Model: model})
	for _, session := range []string{"s1", "s2"} {
		s.Prompted(t, session, "hi", 1)
	}
	s.EmptyInbox(t)
	s.Stop()
	s.Prompt(t, "s2", "too early") // so that the deleter sends an abort
	for _, session := range []string{"s1", "s2"} {
		interrupted(t, s, retention.Request{Session: session, Force: true}, "fence")
		_, err := s.Client.JetStream().Publish(deadline(t), s.Client.Subjects().Command(session, schemas.CommandAbort),
			[]byte("{}"))
		if err != nil {
			t.Fatal(err)
		}
	}
	system.StartRunner(t, s.URL, system.RunnerOptions{Model: model, Inbox: inbox.Options{RunnerID: "second"}})
	for _, session := range []string{"s1", "s2"} {
		finished(t, s, session)
	}
	s.EmptyInbox(t)
	for _, session := range []string{"s1", "s2"} {
		if log := s.LogOf(t, session); len(log) > 0 {
			t.Errorf("session %s: %d events: %+v", session, len(log), log)
		}
	}
}
