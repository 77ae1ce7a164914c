package host_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

func TestSteeringReachesTheRun(t *testing.T) {
	t.Parallel()
	var r *looptest.Rig
	calls := 0
	r = looptest.New(t, looptest.ModelFunc(func(_ context.Context, req schemas.ModelRequest) (*schemas.AssistantMessage,
		error) {
		if calls++; calls == 1 {
			r.Deliver("st1", &schemas.Steer{Input: schemas.Input{Text: "left"}})
			return looptest.Say("right"), nil
		}
		last := req.Messages[len(req.Messages)-1].(*schemas.UserMessage)
		return looptest.Say("so " + last.Content.JoinText()), nil
	}))
	r.Deliver("p1", looptest.Prompt("go"))
	if calls != 2 || r.Count(schemas.EventAgentEnd) != 1 {
		t.Fatalf("%d model calls, log %v", calls, r.Types())
	}
	r.Deliver("st2", &schemas.Steer{Input: schemas.Input{Text: "again"}})
	if n := r.Count(schemas.EventAgentEnd); n != 2 {
		t.Errorf("a steer that found the session idle started no run: %d runs", n)
	}
}

func TestAbortReachesModelAndTools(t *testing.T) {
	t.Parallel()
	t.Run("model", func(t *testing.T) {
		var r *looptest.Rig
		r = looptest.New(t, looptest.ModelFunc(func(ctx context.Context, _ schemas.ModelRequest) (*schemas.AssistantMessage,
			error) {
			r.Deliver("a1", &schemas.Abort{})
			<-ctx.Done()
			return &schemas.AssistantMessage{StopReason: schemas.StopAborted, ErrorMessage: "aborted"}, nil
		}))
		r.Deliver("p1", looptest.Prompt("go"))
		r.WantEnd(schemas.EndAbort)
	})
	t.Run("tools", func(t *testing.T) {
		r := looptest.New(t, looptest.ToolThenDone("t1"), func(o *host.Options) { o.AbortGrace = time.Millisecond })
		r.Deliver("p1", looptest.Prompt("go"))
		r.Deliver("a1", &schemas.Abort{})
		if len(r.Tools.Cancelled) != 1 {
			t.Errorf("cancelled %v", r.Tools.Cancelled)
		}
		r.WantEnd(schemas.EndAbort)
		id, late := looptest.AnswerTo(r.Tools.Take(t), "late")
		before := len(r.Events())
		r.Deliver(id, late)
		if len(r.Events()) != before {
			t.Error("a late result changed the log")
		}
	})
	t.Run("idle", func(t *testing.T) {
		r := looptest.New(t, looptest.ToolThenDone())
		r.Deliver("a1", &schemas.Abort{})
		if d := cmp.Diff([]string{"command_rejected"}, r.Types()); d != "" {
			t.Error(d)
		}
	})
}

func TestRunsEndForTheirLimits(t *testing.T) {
	t.Parallel()
	always := looptest.ModelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		m := looptest.CallTool("t1")
		m.Usage.TotalTokens, m.Usage.Cost.Total = 100, 0.5
		return m, nil
	})
	for want, limits := range map[schemas.TerminationReason]schemas.Limits{
		schemas.EndMaxTurns: {MaxTurns: 1}, schemas.EndBudget: {MaxCost: 0.4},
	} {
		r := looptest.New(t, always, func(o *host.Options) { o.Defaults.Limits = limits })
		r.Deliver("p1", looptest.Prompt("go"))
		id, result := looptest.AnswerTo(r.Tools.Take(t), "ok")
		r.Deliver(id, result)
		r.WantEnd(want)
	}
	t.Run("idle", func(t *testing.T) {
		silent := looptest.ModelFunc(func(ctx context.Context, _ schemas.ModelRequest) (*schemas.AssistantMessage, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		r := looptest.New(t, silent, func(o *host.Options) { o.IdleTimeout = 5 * time.Millisecond })
		r.Deliver("p1", looptest.Prompt("go"))
		r.WantEnd(schemas.TimeoutIdle)
	})
	t.Run("wall clock", func(t *testing.T) {
		var r *looptest.Rig
		r = looptest.New(t, looptest.ModelFunc(func(ctx context.Context, _ schemas.ModelRequest) (*schemas.AssistantMessage,
			error) {
			run := r.Events()[len(r.Events())-1].RunID
			r.Deliver("timer", &schemas.Timer{Name: schemas.TimerRunDeadline, RunID: run})
			<-ctx.Done()
			return nil, ctx.Err()
		}))
		r.Deliver("p1", looptest.Prompt("go"))
		r.WantEnd(schemas.TimeoutRun)
	})
}

func TestAPanicIsAnErrorOfTheRun(t *testing.T) {
	t.Parallel()
	r := looptest.New(t, looptest.ModelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage,
		error) {
		panic("boom")
	}))
	r.Deliver("p1", looptest.Prompt("go"))
	r.WantEnd(schemas.EndError)
}

func TestWhenBusy(t *testing.T) {
	t.Parallel()
	tests := map[schemas.WhenBusy][]string{
		schemas.BusyQueue:  {"r1", "go", "r2", "also"},
		schemas.BusyReject: {"r1", "go"},
		schemas.BusySteer:  {"r1", "go", "also"},
	}
	for busy, want := range tests {
		t.Run(string(busy), func(t *testing.T) {
			var r *looptest.Rig
			first := true
			r = looptest.New(t, looptest.ModelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage,
				error) {
				if first {
					first = false
					r.Deliver("p2", &schemas.Prompt{Input: schemas.Input{Text: "also"}, WhenBusy: busy})
				}
				return looptest.Say("ok"), nil
			}))
			r.Deliver("p1", looptest.Prompt("go"))
			if d := cmp.Diff(want, r.Asked()); d != "" {
				t.Errorf("runs and their inputs (-want +got):\n%s\n%v", d, r.Types())
			}
		})
	}
}

func TestInterruptSupersedesWaitingPrompts(t *testing.T) {
	t.Parallel()
	var r *looptest.Rig
	first := true
	r = looptest.New(t, looptest.ModelFunc(func(ctx context.Context, _ schemas.ModelRequest) (*schemas.AssistantMessage,
		error) {
		if !first {
			return looptest.Say("ok"), nil
		}
		first = false
		r.Deliver("p2", looptest.Prompt("never"))
		r.Deliver("p3", &schemas.Prompt{Input: schemas.Input{Text: "now"}, WhenBusy: schemas.BusyInterrupt})
		<-ctx.Done()
		return &schemas.AssistantMessage{StopReason: schemas.StopAborted}, nil
	}))
	r.Deliver("p1", looptest.Prompt("go"))
	if d := cmp.Diff([]string{"r1", "go", "r2", "now"}, r.Asked()); d != "" {
		t.Error(d)
	}
	if r.Count(schemas.EventCommandSuperseded) != 1 {
		t.Errorf("p2 has no outcome: %v", r.Types())
	}
}

func TestAStoppedHostLeavesTheRunToTheNext(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancelCause(t.Context())
	r := looptest.New(t, looptest.ModelFunc(func(ctx context.Context, _ schemas.ModelRequest) (*schemas.AssistantMessage,
		error) {
		stop(driver.ErrStopped)
		<-ctx.Done()
		return &schemas.AssistantMessage{StopReason: schemas.StopAborted}, nil
	}))
	if err := r.Host.Deliver(ctx, looptest.Command("p1", looptest.Prompt("go")), nil); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if !errors.Is(driver.ErrStopped, context.Canceled) {
		t.Error("whoever logs failures takes a stop for one")
	}
	r.Host = r.NewHost(looptest.ToolThenDone("t1"))
	r.Deliver("p1", looptest.Prompt("go"))
	id, result := looptest.AnswerTo(r.Tools.Take(t), "ok")
	r.Deliver(id, result)
	r.WantEnd(schemas.EndNoToolCalls)
	if i := slices.Index(r.Types(), "run_resumed"); i < 0 || r.Types()[i-1] != "message_end" {
		t.Errorf("the reply that was being streamed was not closed and resumed: %v", r.Types())
	}
}

func TestACommandGivenUpEndsItsRun(t *testing.T) {
	t.Parallel()
	crash := looptest.ModelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		return looptest.Say("x"),
			nil
	})
	r := looptest.New(t, crash)
	ctx, stop := context.WithCancel(t.Context())
	r.Host = r.NewHost(looptest.ModelFunc(func(ctx context.Context, _ schemas.ModelRequest) (*schemas.AssistantMessage,
		error) {
		stop() // the runner dies with every try
		<-ctx.Done()
		return nil, ctx.Err()
	}))
	_ = r.Host.Deliver(ctx, looptest.Command("p1", looptest.Prompt("go")), nil)
	r.Host = r.NewHost(crash)
	refusal := schemas.CommandRejected{CommandID: "p1", Kind: schemas.CommandPrompt, Code: schemas.RejectDelivery,
		Reason: "too often"}
	if err := r.Host.Reject(t.Context(), "s1", refusal); err != nil {
		t.Fatal(err)
	}
	r.WantEnd(schemas.EndAbort)
}

// clockwork records the timers that were set.
type clockwork struct{ calls chan string }

func (c clockwork) Schedule(_ context.Context, session string, _ time.Time, timer schemas.Timer) error {
	c.calls <- "set " + session + " " + timer.RunID
	return nil
}

func (c clockwork) Cancel(_ context.Context, session, name string) error {
	c.calls <- "cancel " + session + " " + name
	return nil
}

func TestRunSetsAndCancelsItsDeadline(t *testing.T) {
	t.Parallel()
	timers := clockwork{make(chan string, 10)}
	limited := func(o *host.Options) { o.Timers, o.Defaults.Limits.RunTimeoutMs = timers, 1000 }
	want := func(want string) {
		t.Helper()
		if got := <-timers.calls; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	r := looptest.New(t, looptest.ToolThenDone("t1"), limited)
	r.Deliver("p1", looptest.Prompt("go"))
	want("set s1 r2")
	r.Host = r.NewHost(looptest.ToolThenDone("t1"), limited)
	id, result := looptest.AnswerTo(r.Tools.Take(t), "ok")
	r.Deliver(id, result)
	want("set s1 r2")
	want("cancel s1 run_deadline")
}

// flaky loses the answer to the first dispatch.
type flaky struct {
	*looptest.Queue
	failed bool
}

func (f *flaky) Dispatch(ctx context.Context, req schemas.ToolRequest, again bool) error {
	if !f.failed {
		f.failed = true
		return errors.New("connection lost")
	}
	return f.Queue.Dispatch(ctx, req, again)
}

func TestDispatchOfUnknownOutcomeIsRepeatedWithAgain(t *testing.T) {
	t.Parallel()
	r := looptest.New(t, looptest.ToolThenDone("t1"), func(o *host.Options) {
		o.Tools = &flaky{Queue: o.Tools.(*looptest.Queue)}
	})
	if err := r.Host.Deliver(t.Context(), looptest.Command("p1", looptest.Prompt("go")), nil); err == nil {
		t.Fatal("the prompt was taken as done")
	}
	r.Deliver("p1", looptest.Prompt("go")) // the queue delivers it again
	if len(r.Tools.Again) != 1 || !r.Tools.Again[0] {
		t.Errorf("again = %v", r.Tools.Again)
	}
	id, result := looptest.AnswerTo(r.Tools.Take(t), "ok")
	r.Deliver(id, result)
	r.WantEnd(schemas.EndNoToolCalls)
}

func TestResumedAbortedRunDispatchesNothing(t *testing.T) {
	t.Parallel()
	r := looptest.New(t, looptest.ToolThenDone("t1"))
	r.Deliver("p1", looptest.Prompt("go"))
	r.Tools.Take(t)
	r.Host = r.NewHost(looptest.ToolThenDone("t1"), func(o *host.Options) { o.AbortGrace = time.Millisecond })
	r.Deliver("a1", &schemas.Abort{})
	if len(r.Tools.Requests) != 0 {
		t.Errorf("dispatched for a run that is to end: %v", r.Tools.Requests)
	}
	if len(r.Tools.Cancelled) != 1 {
		t.Errorf("cancelled %v", r.Tools.Cancelled)
	}
	r.WantEnd(schemas.EndAbort)
}

func TestASessionRestsAlthoughACallEndedAtOnce(t *testing.T) {
	t.Parallel()
	r := looptest.New(t, looptest.ModelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage,
		error) {
		m := looptest.CallTool("t1")
		m.Content = append(m.Content, schemas.ToolCall{ID: "t2", Name: "unknown"})
		return m, nil
	}))
	r.Deliver("p1", looptest.Prompt("go")) // returns: it may be acknowledged while t1 runs
	r.Host = r.NewHost(looptest.ToolThenDone())
	r.Deliver("st1", &schemas.Steer{Input: schemas.Input{Text: "left"}})
	if n := r.Count(schemas.EventToolExecutionEnd); n != 1 {
		t.Errorf("%d calls have ended, want 1", n)
	}
}
