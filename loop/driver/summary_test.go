package driver_test

import (
	"context"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

const textTooLong = "prompt is too long"

// overflowing is a model for which every context with a user message that begins with "long" is too long.
type overflowing struct{}

func (overflowing) Stream(_ context.Context, req schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	return func(yield func(schemas.StreamEvent, error) bool) {
		for _, m := range req.Messages {
			u, ok := m.(*schemas.UserMessage)
			if ok && !isSummary(req) && strings.HasPrefix(u.Content.JoinText(), "long") {
				yield(schemas.StreamEvent{Type: schemas.StreamError, Message: failed(textTooLong),
					FailureCode: schemas.FailureContextOverflow}, nil)
				return
			}
		}
		yield(schemas.StreamEvent{Type: schemas.StreamDone, Message: looptest.Say("hi")}, nil)
	}
}

// isSummary reports whether a request is for a summary.
func isSummary(req schemas.ModelRequest) bool { return strings.Contains(req.SystemPrompt, "summaries") }

// summing is a host that summarizes contexts on request, by this function; everything else gets a reply at once.
func summing(t *testing.T, summary looptest.ModelFunc, change ...func(*host.Options)) *looptest.Rig {
	t.Helper()
	r := looptest.New(t, sums(summary), append([]func(*host.Options){onDemand}, change...)...)
	r.Deliver("p1", looptest.Prompt("one"))
	r.Deliver("p2", looptest.Prompt("two"))
	return r
}

// sums is a model that makes summaries by this function.
func sums(summary looptest.ModelFunc) looptest.ModelFunc {
	return func(ctx context.Context, req schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		if isSummary(req) {
			return summary(ctx, req)
		}
		return looptest.Say("hi"), ctx.Err()
	}
}

// onDemand allows compactions on request only.
func onDemand(o *host.Options) {
	o.Defaults.Compaction = schemas.CompactionPolicy{ReserveTokens: 100, KeepRecentTokens: 1}
}

// dataOf returns the events of a type, as JSON.
func dataOf[T schemas.EventData](r *looptest.Rig) (all []T) {
	for _, e := range r.Events() {
		if d, ok := e.Data.(T); ok {
			all = append(all, d)
		}
	}
	return all
}

// refusals returns the codes and reasons of rejected commands.
func refusals(r *looptest.Rig) (all []string) {
	for _, d := range dataOf[*schemas.CommandRejected](r) {
		all = append(all, d.CommandID+" "+string(d.Code)+": "+d.Reason)
	}
	return all
}

func folded(r *looptest.Rig) *loop.State {
	r.T.Helper()
	s := &loop.State{Session: "s1"}
	for _, e := range r.Events() {
		if err := s.Apply(e); err != nil {
			r.T.Fatal(err)
		}
	}
	return s
}

// first returns the id of the first reply.
func first(r *looptest.Rig) string {
	for _, e := range folded(r).Messages {
		if e.Message.MessageRole() == schemas.RoleAssistant {
			return e.ID
		}
	}
	return ""
}

// toFirst navigates to the first reply and has the branch that is left summarized.
func toFirst(r *looptest.Rig) *schemas.Navigate {
	return &schemas.Navigate{TargetID: first(r), Summarize: true}
}

// An abort gives up a summary, of a compaction and of a branch, while the model works and while the driver waits to
// retry. It does not abort what comes next.
func TestASummaryIsAborted(t *testing.T) {
	t.Parallel()
	commands := map[string]func(r *looptest.Rig) schemas.CommandData{
		"Compaction cancelled":     func(*looptest.Rig) schemas.CommandData { return &schemas.Compact{} },
		"Branch summary cancelled": func(r *looptest.Rig) schemas.CommandData { return toFirst(r) },
	}
	for want, command := range commands {
		for _, waits := range []bool{false, true} {
			t.Run(want, func(t *testing.T) {
				t.Parallel()
				asked, again := make(chan struct{}, 10), false
				r := summing(t, func(ctx context.Context, _ schemas.ModelRequest) (*schemas.AssistantMessage, error) {
					if again {
						return looptest.Say("summary"), nil
					}
					asked <- struct{}{}
					if waits {
						return failed("overloaded"), nil
					}
					<-ctx.Done()
					return nil, ctx.Err()
				}, retrying(time.Hour))
				leaf := folded(r).Tree.Leaf
				done := make(chan error, 1)
				go func() {
					done <- r.Host.Deliver(t.Context(), looptest.Command("k1", command(r)), nil)
				}()
				<-asked
				r.Deliver("a1", new(schemas.Abort))
				if err := <-done; err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff([]string{"k1 aborted: " + want}, refusals(r)); d != "" {
					t.Errorf("refused (-want +got):\n%s", d)
				}
				s := folded(r)
				if s.Busy() || s.Tree.Leaf != leaf {
					t.Errorf("after the abort: %+v", s)
				}
				r.Deliver("p3", looptest.Prompt("three"))
				r.WantEnd(schemas.EndNoToolCalls)
				again = true
				r.Deliver("k2", command(r))
				if n := len(refusals(r)); n != 1 {
					t.Errorf("refused %q", refusals(r))
				}
			})
		}
	}
}

// An abort does not wait for a service that is asked before a summary, and does not abort what comes next.
func TestAnAbortDoesNotWaitForAServiceOfASummary(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		hook    schemas.HookName
		command func(r *looptest.Rig) schemas.CommandData
	}{
		{schemas.HookSessionBeforeCompact, func(*looptest.Rig) schemas.CommandData { return &schemas.Compact{} }},
		{schemas.HookSessionBeforeTree, func(r *looptest.Rig) schemas.CommandData { return toFirst(r) }},
	} {
		t.Run(string(c.hook), func(t *testing.T) {
			t.Parallel()
			asked := make(chan struct{}, 10)
			r := summing(t, func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
				t.Error("a model was asked for a summary")
				return looptest.Say("summary"), nil
			}, served(busy(asked), c.hook))
			done := make(chan error, 1)
			go func() { done <- r.Host.Deliver(t.Context(), looptest.Command("k1", c.command(r)), nil) }()
			<-asked
			r.Deliver("a1", new(schemas.Abort))
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			if got := refusals(r); len(got) != 1 || !strings.HasPrefix(got[0], "k1 aborted: ") {
				t.Errorf("refused %q", got)
			}
			r.Deliver("p3", looptest.Prompt("three"))
			r.WantEnd(schemas.EndNoToolCalls)
		})
	}
}

// A failed summary is retried as often as the policy allows and then reported: of a requested compaction, of one that
// was due, and of a branch, whose leaf does not move.
func TestAFailedSummaryIsReported(t *testing.T) {
	t.Parallel()
	fail := func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		return failed("overloaded"), nil
	}
	attempts := func(t *testing.T, r *looptest.Rig) {
		t.Helper()
		var delays []int64
		for _, end := range dataOf[*schemas.SummaryEnd](r) {
			if end.Error != "Summarization failed: overloaded" && end.Error != "Branch summarization failed: overloaded" &&
				end.Error != "overloaded" {
				t.Errorf("failed with %q", end.Error)
			}
			delays = append(delays, end.RetryDelayMs)
		}
		if d := cmp.Diff([]int64{1, 2, 4, 0}, delays); d != "" {
			t.Errorf("delays (-want +got):\n%s", d)
		}
	}
	t.Run("asked for", func(t *testing.T) {
		t.Parallel()
		r := summing(t, fail, retrying(time.Millisecond))
		r.Deliver("k1", new(schemas.Compact))
		attempts(t, r)
		want := []string{"k1 failed: Compaction failed: Summarization failed: overloaded"}
		if d := cmp.Diff(want, refusals(r)); d != "" {
			t.Errorf("refused (-want +got):\n%s", d)
		}
	})
	t.Run("a branch", func(t *testing.T) {
		t.Parallel()
		r := summing(t, fail, retrying(time.Millisecond))
		leaf := folded(r).Tree.Leaf
		r.Deliver("n1", toFirst(r))
		attempts(t, r)
		ends := dataOf[*schemas.BranchSummaryEnd](r)
		if got := refusals(r); len(ends) != 1 || len(got) != 1 || got[0] != "n1 failed: "+ends[0].ErrorMessage ||
			folded(r).Tree.Leaf != leaf {
			t.Errorf("ended %+v, refused %q", ends, got)
		}
	})
	t.Run("due", func(t *testing.T) {
		t.Parallel()
		r := summing(t, fail, retrying(time.Millisecond), func(o *host.Options) {
			o.Defaults.Compaction.Enabled = true
			o.Window = func(schemas.ModelRef) int64 { return 300 }
		})
		r.Deliver("p3", looptest.Prompt(strings.Repeat("word ", 200)))
		attempts(t, r)
		ends := dataOf[*schemas.CompactionEnd](r)
		if len(ends) != 1 || ends[0].ErrorMessage != "Auto-compaction failed: Summarization failed: overloaded" {
			t.Errorf("ended %+v", ends)
		}
		if all := dataOf[*schemas.AgentEnd](r); len(all) != 3 || all[2].TerminationReason != schemas.EndNoToolCalls {
			t.Errorf("runs ended %+v", all)
		}
	})
}

// A budget that is used up, the session's or the profile's, refuses a summary with a reason.
func TestABudgetRefusesASummary(t *testing.T) {
	t.Parallel()
	never := func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		return looptest.Say("summary"), nil
	}
	r := summing(t, never)
	const reason = "No model was asked for a summary: the budget of the run or of the session is used up"
	r.Host = r.NewHost(looptest.ModelFunc(func(_ context.Context, req schemas.ModelRequest) (*schemas.AssistantMessage,
		error) {
		if isSummary(req) {
			t.Error("a model was asked for a summary")
		}
		m := looptest.Say("dear")
		m.Usage.TotalTokens = 10
		return m, nil
	}), func(o *host.Options) {
		o.Defaults.Compaction = schemas.CompactionPolicy{ReserveTokens: 100, KeepRecentTokens: 1}
		o.Defaults.Limits.SessionMaxTokens = 1
	})
	r.Deliver("p3", looptest.Prompt("three"))
	leaf := folded(r).Tree.Leaf
	r.Deliver("k1", new(schemas.Compact))
	r.Deliver("n1", toFirst(r))
	want := []string{"k1 failed: Compaction failed: " + reason, "n1 failed: " + reason}
	if d := cmp.Diff(want, refusals(r)); d != "" {
		t.Errorf("refused (-want +got):\n%s", d)
	}
	if got := folded(r).Tree.Leaf; got != leaf {
		t.Errorf("the leaf is %s, was %s", got, leaf)
	}
}

// A context that is too long again after a compaction ends the run, after one attempt and with its exact text, also if
// another process made the attempt.
func TestASecondOverflowIsReported(t *testing.T) {
	t.Parallel()
	const want = "Context overflow recovery failed after one compact-and-retry attempt. " +
		"Try reducing context or switching to a larger-context model."
	small := func(o *host.Options) {
		o.Defaults.Compaction = schemas.CompactionPolicy{Enabled: true, ReserveTokens: 100, KeepRecentTokens: 1}
	}
	check := func(t *testing.T, r *looptest.Rig) {
		t.Helper()
		ends := dataOf[*schemas.CompactionEnd](r)
		if len(ends) != 2 || ends[0].ErrorMessage != "" || ends[0].Reason != schemas.CompactOverflow ||
			ends[1].ErrorMessage != want || ends[1].Reason != schemas.CompactOverflow {
			t.Fatalf("ended %+v", ends)
		}
		r.WantEnd(schemas.EndError)
		if got := end(r); got.ErrorMessage != textTooLong {
			t.Errorf("the run ended with %q", got.ErrorMessage)
		}
	}
	play := func(r *looptest.Rig) {
		r.Deliver("p1", looptest.Prompt("one"))
		r.Deliver("p2", looptest.Prompt("two"))
		r.Deliver("p3", looptest.Prompt("long"))
	}
	whole := looptest.New(t, overflowing{}, small)
	play(whole)
	check(t, whole)
	for n := range whole.Events() {
		r := looptest.New(t, overflowing{}, small)
		appendTo(t, r, whole.Events()[:n])
		play(r)
		check(t, r)
	}
}
