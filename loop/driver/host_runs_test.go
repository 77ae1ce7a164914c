package driver_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/schemas"
)

func TestSteeringReachesTheRun(t *testing.T) {
	var r *rig
	calls := 0
	r = newRig(t, modelFunc(func(_ context.Context, req schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		if calls++; calls == 1 {
			r.deliver("st1", &schemas.Steer{Input: schemas.Input{Text: "left"}})
			return say("right"), nil
		}
		last := req.Messages[len(req.Messages)-1].(*schemas.UserMessage)
		return say("so " + last.Content.JoinText()), nil
	}))
	r.deliver("p1", prompt("go"))
	if calls != 2 || r.count(schemas.EventAgentEnd) != 1 {
		t.Fatalf("%d model calls, log %v", calls, r.types())
	}
	r.deliver("st2", &schemas.Steer{Input: schemas.Input{Text: "again"}})
	if n := r.count(schemas.EventAgentEnd); n != 2 {
		t.Errorf("a steer that found the session idle started no run: %d runs", n)
	}
}

func TestAbortReachesModelAndTools(t *testing.T) {
	t.Run("model", func(t *testing.T) {
		var r *rig
		r = newRig(t, modelFunc(func(ctx context.Context, _ schemas.ModelRequest) (*schemas.AssistantMessage, error) {
			r.deliver("a1", &schemas.Abort{})
			<-ctx.Done()
			return &schemas.AssistantMessage{StopReason: schemas.StopAborted, ErrorMessage: "aborted"}, nil
		}))
		r.deliver("p1", prompt("go"))
		r.wantEnd(schemas.EndAbort)
	})
	t.Run("tools", func(t *testing.T) {
		r := newRig(t, toolThenDone("t1"), func(o *driver.HostOptions) { o.AbortGrace = time.Millisecond })
		r.deliver("p1", prompt("go"))
		r.deliver("a1", &schemas.Abort{})
		if len(r.tools.cancelled) != 1 {
			t.Errorf("cancelled %v", r.tools.cancelled)
		}
		r.wantEnd(schemas.EndAbort)
		id, late := answerTo(r.tools.take(t), "late")
		before := len(r.events())
		r.deliver(id, late)
		if len(r.events()) != before {
			t.Error("a late result changed the log")
		}
	})
	t.Run("idle", func(t *testing.T) {
		r := newRig(t, toolThenDone())
		r.deliver("a1", &schemas.Abort{})
		if d := cmp.Diff([]string{"command_rejected"}, r.types()); d != "" {
			t.Error(d)
		}
	})
}

func (r *rig) wantEnd(want schemas.TerminationReason) {
	r.t.Helper()
	events := r.events()
	end, ok := events[len(events)-1].Data.(*schemas.AgentEnd)
	if !ok || end.TerminationReason != want {
		r.t.Errorf("ended with %+v, want %s; log %v", events[len(events)-1].Data, want, r.types())
	}
}

func TestRunsEndForTheirLimits(t *testing.T) {
	always := modelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		m := callTool("t1")
		m.Usage.TotalTokens, m.Usage.Cost.Total = 100, 0.5
		return m, nil
	})
	for want, limits := range map[schemas.TerminationReason]schemas.Limits{
		schemas.EndMaxTurns: {MaxTurns: 1}, schemas.EndBudget: {MaxCost: 0.4},
	} {
		r := newRig(t, always, func(o *driver.HostOptions) { o.Defaults.Limits = limits })
		r.deliver("p1", prompt("go"))
		id, result := answerTo(r.tools.take(t), "ok")
		r.deliver(id, result)
		r.wantEnd(want)
	}
	t.Run("idle", func(t *testing.T) {
		silent := modelFunc(func(ctx context.Context, _ schemas.ModelRequest) (*schemas.AssistantMessage, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		})
		r := newRig(t, silent, func(o *driver.HostOptions) { o.IdleTimeout = 5 * time.Millisecond })
		r.deliver("p1", prompt("go"))
		r.wantEnd(schemas.TimeoutIdle)
	})
	t.Run("wall clock", func(t *testing.T) {
		var r *rig
		r = newRig(t, modelFunc(func(ctx context.Context, _ schemas.ModelRequest) (*schemas.AssistantMessage, error) {
			run := r.events()[len(r.events())-1].RunID
			r.deliver("timer", &schemas.Timer{Name: schemas.TimerRunDeadline, RunID: run})
			<-ctx.Done()
			return nil, ctx.Err()
		}))
		r.deliver("p1", prompt("go"))
		r.wantEnd(schemas.TimeoutRun)
	})
}

func TestAPanicIsAnErrorOfTheRun(t *testing.T) {
	r := newRig(t, modelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		panic("boom")
	}))
	r.deliver("p1", prompt("go"))
	r.wantEnd(schemas.EndError)
}

func TestWhenBusy(t *testing.T) {
	tests := map[schemas.WhenBusy][]string{
		schemas.BusyQueue:  {"r1", "go", "r2", "also"},
		schemas.BusyReject: {"r1", "go"},
		schemas.BusySteer:  {"r1", "go", "also"},
	}
	for busy, want := range tests {
		t.Run(string(busy), func(t *testing.T) {
			var r *rig
			first := true
			r = newRig(t, modelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
				if first {
					first = false
					r.deliver("p2", &schemas.Prompt{Input: schemas.Input{Text: "also"}, WhenBusy: busy})
				}
				return say("ok"), nil
			}))
			r.deliver("p1", prompt("go"))
			if d := cmp.Diff(want, r.asked()); d != "" {
				t.Errorf("runs and their inputs (-want +got):\n%s\n%v", d, r.types())
			}
		})
	}
}

// asked lists the runs and the user messages in them.
func (r *rig) asked() (out []string) {
	runs := 0
	for _, e := range r.events() {
		switch d := e.Data.(type) {
		case *schemas.AgentStart:
			runs++
			out = append(out, fmt.Sprintf("r%d", runs))
		case *schemas.MessageEnd:
			if m, ok := d.Message.Message.(*schemas.UserMessage); ok {
				out = append(out, m.Content.JoinText())
			}
		}
	}
	return out
}

func TestInterruptTakesThePlaceOfWhatWaits(t *testing.T) {
	var r *rig
	first := true
	r = newRig(t, modelFunc(func(ctx context.Context, _ schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		if !first {
			return say("ok"), nil
		}
		first = false
		r.deliver("p2", prompt("never"))
		r.deliver("p3", &schemas.Prompt{Input: schemas.Input{Text: "now"}, WhenBusy: schemas.BusyInterrupt})
		<-ctx.Done()
		return &schemas.AssistantMessage{StopReason: schemas.StopAborted}, nil
	}))
	r.deliver("p1", prompt("go"))
	if d := cmp.Diff([]string{"r1", "go", "r2", "now"}, r.asked()); d != "" {
		t.Error(d)
	}
	if r.count(schemas.EventCommandSuperseded) != 1 {
		t.Errorf("p2 has no outcome: %v", r.types())
	}
}

func TestAStoppedHostLeavesTheRunToTheNext(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	r := newRig(t, modelFunc(func(ctx context.Context, _ schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		stop(driver.ErrStopped)
		<-ctx.Done()
		return &schemas.AssistantMessage{StopReason: schemas.StopAborted}, nil
	}))
	if err := r.host.Deliver(ctx, command("p1", prompt("go")), nil); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if !errors.Is(driver.ErrStopped, context.Canceled) {
		t.Error("whoever logs failures takes a stop for one")
	}
	r.host = r.newHost(toolThenDone("t1"))
	r.deliver("p1", prompt("go"))
	id, result := answerTo(r.tools.take(t), "ok")
	r.deliver(id, result)
	r.wantEnd(schemas.EndNoToolCalls)
	if i := slices.Index(r.types(), "run_resumed"); i < 0 || r.types()[i-1] != "message_end" {
		t.Errorf("the reply that was being streamed was not closed and resumed: %v", r.types())
	}
}

func TestACommandGivenUpEndsItsRun(t *testing.T) {
	crash := modelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) { return say("x"), nil })
	r := newRig(t, crash)
	ctx, stop := context.WithCancel(t.Context())
	r.host = r.newHost(modelFunc(func(ctx context.Context, _ schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		stop() // the runner dies with every try
		<-ctx.Done()
		return nil, ctx.Err()
	}))
	_ = r.host.Deliver(ctx, command("p1", prompt("go")), nil)
	r.host = r.newHost(crash)
	refusal := schemas.CommandRejected{CommandID: "p1", Kind: schemas.CommandPrompt, Code: schemas.RejectDelivery, Reason: "too often"}
	if err := r.host.Reject(t.Context(), "s1", refusal); err != nil {
		t.Fatal(err)
	}
	r.wantEnd(schemas.EndAbort)
}

// clockwork keeps the timers that were asked for.
type clockwork struct{ calls chan string }

func (c clockwork) Schedule(_ context.Context, session string, _ time.Time, timer schemas.Timer) error {
	c.calls <- "set " + session + " " + timer.RunID
	return nil
}

func (c clockwork) Cancel(_ context.Context, session, name string) error {
	c.calls <- "cancel " + session + " " + name
	return nil
}

func TestARunSetsItsDeadlineAndTakesItBack(t *testing.T) {
	timers := clockwork{make(chan string, 10)}
	limited := func(o *driver.HostOptions) { o.Timers, o.Defaults.Limits.RunTimeoutMs = timers, 1000 }
	want := func(want string) {
		t.Helper()
		if got := <-timers.calls; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	r := newRig(t, toolThenDone("t1"), limited)
	r.deliver("p1", prompt("go"))
	want("set s1 r2")
	r.host = r.newHost(toolThenDone("t1"), limited)
	id, result := answerTo(r.tools.take(t), "ok")
	r.deliver(id, result)
	want("set s1 r2")
	want("cancel s1 run_deadline")
}

// flaky loses the answer to the first dispatch.
type flaky struct {
	*queue
	failed bool
}

func (f *flaky) Dispatch(ctx context.Context, req schemas.ToolRequest, again bool) error {
	if !f.failed {
		f.failed = true
		return errors.New("connection lost")
	}
	return f.queue.Dispatch(ctx, req, again)
}

func TestADispatchOfUnknownOutcomeIsLookedIntoAgain(t *testing.T) {
	r := newRig(t, toolThenDone("t1"), func(o *driver.HostOptions) { o.Tools = &flaky{queue: o.Tools.(*queue)} })
	if err := r.host.Deliver(t.Context(), command("p1", prompt("go")), nil); err == nil {
		t.Fatal("the prompt was taken as done")
	}
	r.deliver("p1", prompt("go")) // the queue delivers it again
	if len(r.tools.again) != 1 || !r.tools.again[0] {
		t.Errorf("again = %v", r.tools.again)
	}
	id, result := answerTo(r.tools.take(t), "ok")
	r.deliver(id, result)
	r.wantEnd(schemas.EndNoToolCalls)
}

func TestAnAbortedRunTakenUpAnewHandsNothingOver(t *testing.T) {
	r := newRig(t, toolThenDone("t1"))
	r.deliver("p1", prompt("go"))
	r.tools.take(t)
	r.host = r.newHost(toolThenDone("t1"), func(o *driver.HostOptions) { o.AbortGrace = time.Millisecond })
	r.deliver("a1", &schemas.Abort{})
	if len(r.tools.requests) != 0 {
		t.Errorf("handed over for a run that is to end: %v", r.tools.requests)
	}
	if len(r.tools.cancelled) != 1 {
		t.Errorf("cancelled %v", r.tools.cancelled)
	}
	r.wantEnd(schemas.EndAbort)
}

func TestASessionRestsAlthoughACallEndedAtOnce(t *testing.T) {
	r := newRig(t, modelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		m := callTool("t1")
		m.Content = append(m.Content, schemas.ToolCall{ID: "t2", Name: "unknown"})
		return m, nil
	}))
	r.deliver("p1", prompt("go")) // returns: it may be acknowledged while t1 is out
	r.host = r.newHost(toolThenDone())
	r.deliver("st1", &schemas.Steer{Input: schemas.Input{Text: "left"}})
	if n := r.count(schemas.EventToolExecutionEnd); n != 1 {
		t.Errorf("%d calls have ended, want 1", n)
	}
}
