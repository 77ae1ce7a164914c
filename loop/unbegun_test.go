package loop_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// idle is a session of which no run has begun.
func idle(t *testing.T) *queueing { return &queueing{t: t, s: &loop.State{Session: "s1"}} }

func (q *queueing) waiting() (ids []string) {
	for _, in := range q.s.Prompts {
		ids = append(ids, in.CommandID)
	}
	return ids
}

// A session may wait for a place at its runner before the run of its first prompt begins. Nobody can see that, so an
// abort stops that run all the same, and leaves what is queued behind it.
func TestAbortOfARunThatHasNotBegun(t *testing.T) {
	t.Parallel()
	q := idle(t)
	if got := q.send("a0", &schemas.Abort{}); got != schemas.RejectNoRun {
		t.Errorf("an abort without a prompt: %q", got)
	}
	for _, id := range []string{"p1", "p2"} {
		q.send(id, &schemas.Prompt{Input: megabytes(0)})
	}
	if got := q.send("a1", &schemas.Abort{}); got != "" {
		t.Fatalf("the abort was refused with %q", got)
	}
	for _, s := range []*loop.State{q.s, q.replayed()} {
		if s.Run != nil || len(s.Prompts) != 1 || s.Prompts[0].CommandID != "p2" {
			t.Errorf("after the abort %v wait, run %v", q.waiting(), s.Run)
		}
	}
	want := &schemas.CommandWithdrawn{CommandID: "p1", Kind: schemas.CommandPrompt, By: "a1"}
	if !slices.ContainsFunc(q.log, func(e schemas.Event) bool { return reflect.DeepEqual(e.Data, want) }) {
		t.Error("the prompt has no outcome")
	}
}

// A prompt that interrupts supersedes the prompts that wait, also if the run of the first of them has not begun.
func TestInterruptOfARunThatHasNotBegun(t *testing.T) {
	t.Parallel()
	q := idle(t)
	for _, id := range []string{"p1", "p2"} {
		q.send(id, &schemas.Prompt{})
	}
	if got := q.send("p3", &schemas.Prompt{WhenBusy: schemas.BusyInterrupt}); got != "" {
		t.Fatalf("refused with %q", got)
	}
	for _, s := range []*loop.State{q.s, q.replayed()} {
		if s.Run != nil || len(s.Prompts) != 1 || s.Prompts[0].CommandID != "p3" {
			t.Errorf("%v wait, run %v", q.waiting(), s.Run)
		}
	}
}

// The result of a sub-agent may wait for a run as well. Neither an abort nor an interrupting prompt takes it away:
// nobody would send it again.
func TestResultsOfSubagentsStay(t *testing.T) {
	t.Parallel()
	for name, last := range map[string]schemas.CommandData{
		"abort": &schemas.Abort{}, "interrupt": &schemas.Prompt{WhenBusy: schemas.BusyInterrupt},
	} {
		q := idle(t)
		start := schemas.SubagentStart{Call: "c1", Session: "child", Background: true}
		q.s.Children = []loop.Child{{Start: start, Nonce: "n"}}
		q.send("r1", &schemas.SubagentResult{Call: "c1", Session: "child", Nonce: "n", Text: "the answer"})
		q.send("p1", &schemas.Prompt{})
		q.send("x", last)
		want := []string{"r1"}
		if name == "interrupt" {
			want = append(want, "x")
		}
		if got := q.waiting(); !slices.Equal(got, want) {
			t.Errorf("%s: %v wait, want %v", name, got, want)
		}
	}
}
