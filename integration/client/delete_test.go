package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/bus/retention"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
)

// deleted deletes a session as soon as it is at rest.
func deleted(t *testing.T, s *system.System, session string) {
	t.Helper()
	d := retention.NewDeleter(s.Client, retention.Options{Store: s.Store})
	system.Eventually(t, "session "+session+" is deleted", func() bool {
		_, err := d.Delete(deadline(t), retention.Request{Session: session})
		if err != nil && !errors.Is(err, retention.ErrBusy) {
			t.Fatal(err)
		}
		return err == nil
	})
}

// A session that was deleted while its runner has it in memory can start again, with the same ids of commands and calls
// within the duplicate window.
func TestADeletedSessionBeginsAnew(t *testing.T) {
	t.Parallel()
	s := system.StartAlone(t, system.Options{Model: chunked(t, echoCall(), scripted.Text("Done."))})
	session := connect(t, s.URL).Session("s1")
	var first client.Result
	for i := range 3 {
		run, err := session.Prompt(deadline(t), client.Text("list the files"), client.WithID("p1"))
		if err != nil {
			t.Fatal(err)
		}
		res, err := run.Wait(deadline(t))
		if err != nil || res.Text() != "Done." || res.Turns != 2 {
			t.Fatalf("life %d: %+v, %v", i, res, err)
		}
		if i == 0 {
			first = res
		}
		if res.Seq != first.Seq || res.RunID != first.RunID {
			t.Errorf("life %d: the run %s ends at %d, the first time %s at %d", i, res.RunID, res.Seq, first.RunID, first.Seq)
		}
		s.Verify(t, "s1")
		deleted(t, s, "s1")
		if log := s.LogOf(t, "s1"); len(log) > 0 {
			t.Errorf("life %d: %d events are left", i, len(log))
		}
		system.Eventually(t, "the list does not have it", func() bool { return s.Index.Get("s1") == nil })
	}
}

// A session that is deleted by force during a reply or a tool call stays deleted: later appends of its runner are
// refused, and a later answer of its tool does not reach the new session.
func TestAForcedDeletionIsFinal(t *testing.T) {
	t.Parallel()
	for _, aborting := range []bool{true, false} {
		begun, release := make(chan struct{}, 4), make(chan struct{})
		slow := tools.Tool{
			ToolDefinition: schemas.ToolDefinition{Name: "slow", Parameters: system.Echo.Parameters},
			Execute: func(ctx context.Context, call tools.Call) (schemas.ToolResult, error) {
				begun <- struct{}{}
				<-release // ignores the cancellation
				return schemas.TextResult("late"), nil
			},
		}
		model := system.NewGated(
			2,
			chunked(
				t,
				scripted.Calls("", schemas.ToolCall{Name: "slow", Arguments: json.RawMessage(`{}`)}),
				scripted.Text("Done."),
			),
		)
		s := system.StartAlone(t, system.Options{Model: model, Tools: []tools.Tool{slow}, AbortGrace: 100 * time.Millisecond})
		wait := time.Millisecond
		if aborting {
			wait = 10 * time.Second
		}
		d := retention.NewDeleter(s.Client, retention.Options{Store: s.Store, AbortWait: wait})
		force := func(what string) {
			t.Helper()
			if _, err := d.Delete(deadline(t), retention.Request{Session: "s1"}); !errors.Is(err, retention.ErrBusy) {
				t.Fatalf("%s, without force: %v", what, err)
			}
			if _, err := d.Delete(deadline(t), retention.Request{Session: "s1", Force: true}); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
		s.Prompt(t, "s1", "go")
		<-model.Reached
		s.Until(t, "s1", "the reply in the log", bustest.Nth(2, schemas.EventMessageStart)) // the deltas arrive before
		force("in a reply")
		model.Release()
		s.Prompt(t, "s1", "go")
		<-begun
		force("in a call")
		s.Prompt(t, "s1", "go") // its call has the same id
		<-begun
		log := s.Until(t, "s1", "the call of the new session", func(e schemas.Event) bool {
			return e.Type() == schemas.EventToolExecutionStart
		})
		if n := len(system.DataOf[*schemas.AgentStart](log)); n != 1 {
			t.Errorf("%d runs in the new session", n)
		}
		close(release)
		log = s.Until(t, "s1", "the end of the run", system.Ends(1))
		if n := len(system.DataOf[*schemas.ToolExecutionEnd](log)); n != 1 {
			t.Errorf("%d results", n)
		}
		s.Verify(t, "s1")
		s.EmptyInbox(t)
	}
}

// What nobody can ask about does not begin a deleted session again, not even at the runner that has had it in memory.
func TestALateAbortBeginsNoSession(t *testing.T) {
	t.Parallel()
	s := system.StartAlone(t, system.Options{Model: chunked(t, scripted.Text("Done."))})
	c := connect(t, s.URL)
	run, err := c.Session("s1").Prompt(deadline(t), client.Text("hi"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Wait(deadline(t)); err != nil {
		t.Fatal(err)
	}
	deleted(t, s, "s1")
	for kind, data := range map[string]string{"abort": "{}", "approve": `{"call":"c1"}`, "deny": `{"call":"c1"}`} {
		if _, err := s.Client.JetStream().Publish(deadline(t), "agent.cmd.s1."+kind, []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	system.Eventually(t, "the inbox is empty", func() bool { return bustest.Queued(t, s.Client) == 0 })
	if log := s.LogOf(t, "s1"); len(log) > 0 {
		t.Errorf("%d events: %+v", len(log), log)
	}
}
