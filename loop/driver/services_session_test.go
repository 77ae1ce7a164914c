package driver_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

// sessionHooks are the hooks that are not part of a run.
var sessionHooks = []schemas.HookName{
	schemas.HookSessionBeforeCompact, schemas.HookSessionBeforeTree, schemas.HookSessionBeforeFork,
}

// keeper answers at the session hooks; its answer depends on the command.
func keeper(_ context.Context, to schemas.HookRef, req schemas.HookRequest) (a schemas.HookAnswer, _ error) {
	switch to.Hook {
	case schemas.HookSessionBeforeCompact:
		switch req.Compaction.CustomInstructions {
		case "never":
			a.Cancel, a.Reason = true, "under audit"
		case "ours":
			a.Compaction = &schemas.SuppliedCompaction{Summary: "what we say"}
		}
	case schemas.HookSessionBeforeTree:
		label := "by us"
		switch a.Label = &label; req.Navigation.CustomInstructions {
		case "never":
			a.Cancel, a.Reason = true, "not there"
		case "ours":
			a.Summary = "what we say"
		default:
			instructions, replace := "Mind the tests.", true
			a.CustomInstructions, a.ReplaceInstructions = &instructions, &replace
		}
	case schemas.HookSessionBeforeFork:
		a.Cancel, a.Reason = req.CommandID == "f1", "not from there"
	}
	return a, nil
}

// summaries returns the context and the labels of a session, and what it rejected.
func summaries(r *looptest.Rig) (list []string) {
	s := folded(r)
	for _, m := range s.Transcript() {
		list = append(list, string(m.MessageRole()))
	}
	for id, label := range s.Labels {
		list = append(list, id[:1]+" "+label)
	}
	return append(list, refusals(r)...)
}

// TestSessionHooksContinueAfterACrashAtEveryEvent has another host continue after each event of compactions and
// navigations that services decide about, and delivers every message once more: what was decided is not asked again,
// and the result is the same.
func TestSessionHooksContinueAfterACrashAtEveryEvent(t *testing.T) {
	t.Parallel()
	play := func(r *looptest.Rig) {
		r.Deliver("k1", &schemas.Compact{CustomInstructions: "never"})
		r.Deliver("n1", &schemas.Navigate{TargetID: first(r), Summarize: true, CustomInstructions: "never"})
		r.Deliver("n2", &schemas.Navigate{TargetID: first(r), Summarize: true, CustomInstructions: "ours"})
		r.Deliver("p3", looptest.Prompt("three"))
		r.Deliver("n3", &schemas.Navigate{TargetID: first(r), Summarize: true, CustomInstructions: "a model's"})
		r.Deliver("p4", looptest.Prompt("four"))
		r.Deliver("k2", &schemas.Compact{CustomInstructions: "ours"})
		r.Deliver("p5", looptest.Prompt("five"))
		r.Deliver("k3", new(schemas.Compact))
	}
	asked := func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		return looptest.Say("summary"), nil
	}
	hooked := served(keeper, sessionHooks...)
	whole := summing(t, asked, hooked)
	begun := len(whole.Events())
	play(whole)
	want := summaries(whole)
	if len(want) < 5 || whole.Count(schemas.EventHookDecision) != 6 {
		t.Fatalf("%d decisions, %q", whole.Count(schemas.EventHookDecision), want)
	}
	for n := begun; n < len(whole.Events()); n++ {
		r := looptest.New(t, sums(asked), hooked, onDemand)
		appendTo(t, r, whole.Events()[:n])
		play(r)
		if d := cmp.Diff(want, summaries(r)); d != "" {
			t.Errorf("after %d events: (-want +got):\n%s", n, d)
		}
		if got := r.Count(schemas.EventHookDecision); got != 6 {
			t.Errorf("after %d events: %d decisions", n, got)
		}
	}
}

// A fork continues after a crash at each of its events, and a service can cancel it.
func TestForkContinuesAfterACrashAtEveryEvent(t *testing.T) {
	t.Parallel()
	for _, position := range []schemas.BranchPosition{schemas.BranchAt, schemas.BranchBefore} {
		t.Run(string(position), func(t *testing.T) {
			t.Parallel()
			whole := fork(t, nil, position)
			var got []schemas.EventType
			for _, e := range whole {
				got = append(got, e.Type())
			}
			want := []schemas.EventType{
				schemas.EventHookDecision, schemas.EventCommandRejected, schemas.EventHookDecision, schemas.EventSessionBranched,
				schemas.EventCommandAccepted, schemas.EventCommandApplied,
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Fatalf("log (-want +got):\n%s", d)
			}
			for n := range whole {
				if d := cmp.Diff(outcomes(whole), outcomes(fork(t, whole[:n], position))); d != "" {
					t.Errorf("after %d events (-want +got):\n%s", n, d)
				}
			}
		})
	}
}

// fork has session s2 created as a copy from an entry of s1. One append is refused, after these events are in the log.
// It returns the log.
func fork(t *testing.T, events []schemas.Event, position schemas.BranchPosition) (log []schemas.Event) {
	t.Helper()
	r := summing(t, nil, served(keeper, sessionHooks...))
	second := folded(r).Messages[2].ID
	s2, err := r.Store.Open(t.Context(), "s2")
	for _, e := range events {
		if err == nil {
			err = s2.Append(t.Context(), e)
		}
	}
	if err == nil {
		err = s2.Flush(t.Context())
	}
	for _, id := range []string{"f1", "f2"} {
		c := schemas.Command{ID: id, Session: "s2", Data: &schemas.Branch{
			Session: "s1", EntryID: second, Position: position,
		}}
		if err == nil {
			err = r.Host.Deliver(t.Context(), c, nil)
		}
	}
	if err == nil {
		s2, err = r.Store.Open(t.Context(), "s2")
	}
	for e, failure := range s2.Read(t.Context(), 1) {
		if err == nil {
			err = failure
		}
		log = append(log, e)
	}
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// outcomes returns the outcomes of the commands of a log, and the first messages of its session.
func outcomes(log []schemas.Event) (list []string) {
	s := &loop.State{Session: "s2"}
	for _, e := range log {
		if err := s.Apply(e); err != nil {
			return []string{err.Error()}
		}
		switch d := e.Data.(type) {
		case *schemas.CommandApplied:
			list = append(list, d.CommandID+" applied "+d.Text)
		case *schemas.CommandRejected:
			list = append(list, d.CommandID+" "+string(d.Code)+" "+d.Reason)
		case *schemas.SessionBranched:
			list = append(list, fmt.Sprint(d.Session, d.EntryID, d.Position, len(d.Messages)))
		}
	}
	return append(list, fmt.Sprint(len(s.Messages)))
}
