package driver_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

func failed(text string) *schemas.AssistantMessage {
	return &schemas.AssistantMessage{StopReason: schemas.StopError, ErrorMessage: text,
		Usage: schemas.Usage{TotalTokens: 10}}
}

// failing is a model that fails n times, with the number of the calls before in the text, and then replies done. It
// records the requests.
type failing struct {
	n    int
	seen []schemas.ModelRequest
}

func (f *failing) model() looptest.ModelFunc {
	return func(_ context.Context, req schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		f.seen = append(f.seen, req)
		if len(f.seen) <= f.n {
			return failed("overloaded"), nil
		}
		return looptest.Say("done"), nil
	}
}

// retrying has a host retry up to three times, with this delay.
func retrying(delay time.Duration) func(*host.Options) {
	return func(o *host.Options) {
		o.Defaults.Retry = schemas.RetryPolicy{MaxRetries: 3, BaseDelayMs: delay.Milliseconds()}
		o.Retryable = func(m *schemas.AssistantMessage) bool { return m.ErrorMessage == "overloaded" }
	}
}

// retries returns the retry events as JSON.
func retries(r *looptest.Rig) (all []schemas.EventData) {
	for _, e := range r.Events() {
		switch e.Data.(type) {
		case *schemas.AutoRetryStart, *schemas.AutoRetryEnd, *schemas.ModelFallback, *schemas.BudgetWarning:
			all = append(all, e.Data)
		}
	}
	return all
}

func end(r *looptest.Rig) *schemas.AgentEnd {
	events := r.Events()
	end, ok := events[len(events)-1].Data.(*schemas.AgentEnd)
	if !ok {
		r.T.Fatalf("the run has not ended: %v", r.Types())
	}
	return end
}

func TestFailedReplyIsRetried(t *testing.T) {
	t.Parallel()
	f := &failing{n: 2}
	r := looptest.New(t, f.model(), retrying(time.Millisecond))
	r.Deliver("p1", looptest.Prompt("go"))
	want := []string{
		"command_accepted", "agent_start", "turn_start", "message_start", "message_end", "command_applied",
		"message_start", "message_end", "turn_end", "auto_retry_start",
		"turn_start", "message_start", "message_end", "turn_end", "auto_retry_start",
		"turn_start", "message_start", "message_end", "auto_retry_end", "turn_end", "agent_end",
	}
	if d := cmp.Diff(want, r.Types()); d != "" {
		t.Errorf("log (-want +got):\n%s", d)
	}
	wantRetries := []schemas.EventData{
		&schemas.AutoRetryStart{Attempt: 1, MaxAttempts: 3, DelayMs: 1, ErrorMessage: "overloaded", MessageID: "m7"},
		&schemas.AutoRetryStart{Attempt: 2, MaxAttempts: 3, DelayMs: 2, ErrorMessage: "overloaded", MessageID: "m12"},
		&schemas.AutoRetryEnd{Success: true, Attempt: 2},
	}
	if d := cmp.Diff(wantRetries, retries(r)); d != "" {
		t.Errorf("retries (-want +got):\n%s", d)
	}
	for i, req := range f.seen {
		if len(req.Messages) != 1 {
			t.Errorf("request %d has %d messages: a failed reply is among them", i, len(req.Messages))
		}
	}
	end := end(r)
	if end.TerminationReason != schemas.EndNoToolCalls || end.Usage.TotalTokens != 20 || len(end.Messages) != 2 {
		t.Errorf("end: %+v", end)
	}
}

func TestRetriesAreLimited(t *testing.T) {
	t.Parallel()
	f := &failing{n: 9}
	r := looptest.New(t, f.model(), retrying(time.Millisecond))
	r.Deliver("p1", looptest.Prompt("go"))
	if end := end(r); end.TerminationReason != schemas.EndError || end.ErrorMessage != "overloaded" {
		t.Errorf("end: %+v", end)
	}
	retries := retries(r)
	want := &schemas.AutoRetryEnd{Attempt: 3, FinalError: "overloaded"}
	if d := cmp.Diff(schemas.EventData(want), retries[len(retries)-1]); d != "" || len(retries) != 4 || len(f.seen) != 4 {
		t.Errorf("%d requests, %d events, the last (-want +got):\n%s", len(f.seen), len(retries), d)
	}
}

func TestNextFallbackModelIsCalled(t *testing.T) {
	t.Parallel()
	var asked []string
	model := looptest.ModelFunc(func(_ context.Context, req schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		asked = append(asked, req.Model.ID)
		if req.Model.ID != "c" {
			return failed("invalid key"), nil
		}
		return looptest.Say("done"), nil
	})
	r := looptest.New(t, model, retrying(time.Millisecond))
	a, b, c := schemas.ModelRef{ID: "a"}, schemas.ModelRef{ID: "b"}, schemas.ModelRef{ID: "c"}
	r.Deliver("set", &schemas.SetModel{Model: a, Fallbacks: []schemas.ModelRef{b, c}})
	r.Deliver("p1", looptest.Prompt("go"))
	r.Deliver("p2", looptest.Prompt("again"))
	if d := cmp.Diff([]string{"a", "b", "c", "a", "b", "c"}, asked); d != "" {
		t.Errorf("models (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]schemas.EventData{
		&schemas.ModelFallback{From: a, To: b, ErrorMessage: "invalid key", MessageID: "m9"},
		&schemas.ModelFallback{From: b, To: c, ErrorMessage: "invalid key", MessageID: "m14"},
	}, retries(r)[:2]); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
	if end := end(r); end.TerminationReason != schemas.EndNoToolCalls {
		t.Errorf("end: %+v", end)
	}
}

// timetable records the timers that were set.
type timetable map[string]time.Time

func (m timetable) Schedule(_ context.Context, _ string, at time.Time, timer schemas.Timer) error {
	m[timer.Name+" "+timer.RunID] = at
	return nil
}

func (m timetable) Cancel(context.Context, string, string) error { return nil }

// TestLongRetryWaitIsATimer has the session rest while it waits, and another host continue it.
func TestLongRetryWaitIsATimer(t *testing.T) {
	t.Parallel()
	f, timers, clock := &failing{n: 1}, timetable{}, new(jumping)
	patient := func(o *host.Options) { o.Timers, o.Clock = timers, clock }
	r := looptest.New(t, f.model(), retrying(time.Minute), patient)
	r.Deliver("p1", looptest.Prompt("go")) // returns: the session rests
	start := r.Events()[len(r.Events())-1]
	if start.Type() != schemas.EventAutoRetryStart {
		t.Fatalf("the log ends with %s", start.Type())
	}
	if at := timers["retry r2"]; !at.Equal(start.Time.Add(time.Minute)) {
		t.Errorf("the timer is set for %s, the attempt was announced at %s", at, start.Time)
	}
	r.Host = r.NewHost(f.model(), retrying(time.Minute), patient)
	r.Deliver("early", &schemas.Timer{Name: schemas.TimerRetry, RunID: "r2"})
	if len(f.seen) != 1 {
		t.Fatal("asked again before it was time")
	}
	clock.jump(time.Minute)
	r.Deliver("due", &schemas.Timer{Name: schemas.TimerRetry, RunID: "r2"})
	r.WantEnd(schemas.EndNoToolCalls)
	if n := r.Count(schemas.EventRunResumed); n != 0 {
		t.Error("a run that only waited was said to be resumed")
	}
}

// A timer fires when its time has come by the clock of the server, once. The run goes on then, also if by the clock of
// the runner the time has not come.
func TestARetryTimerFiresByAnotherClock(t *testing.T) {
	t.Parallel()
	for _, elsewhere := range []bool{false, true} {
		f, timers, clock := &failing{n: 2}, timetable{}, new(jumping)
		patient := func(o *host.Options) { o.Timers, o.Clock = timers, clock }
		r := looptest.New(t, f.model(), retrying(time.Minute), patient)
		r.Deliver("p1", looptest.Prompt("go"))
		for range 2 {
			if elsewhere {
				r.Host = r.NewHost(f.model(), retrying(time.Minute), patient)
			}
			id := fmt.Sprintf("timer-retry-r2-%d", timers["retry r2"].UnixMilli())
			r.Deliver(id, &schemas.Timer{Name: schemas.TimerRetry, RunID: "r2"})
		}
		r.WantEnd(schemas.EndNoToolCalls)
		if len(f.seen) != 3 {
			t.Errorf("elsewhere %t: the model was called %d times", elsewhere, len(f.seen))
		}
	}
}

func TestAbortEndsTheRetryWait(t *testing.T) {
	t.Parallel()
	for name, timers := range map[string]driver.Timers{"at rest": timetable{}, "awake": nil} {
		t.Run(name, func(t *testing.T) {
			f := &failing{n: 9}
			r := looptest.New(t, f.model(), retrying(time.Hour), func(o *host.Options) { o.Timers = timers })
			done := make(chan error, 1)
			go func() { done <- r.Host.Deliver(t.Context(), looptest.Command("p1", looptest.Prompt("go")), nil) }()
			eventually(t, func() bool { return r.Count(schemas.EventAutoRetryStart) == 1 })
			r.Deliver("a1", &schemas.Abort{})
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			r.WantEnd(schemas.EndAbort)
			want := &schemas.AutoRetryEnd{Attempt: 1, FinalError: "Retry cancelled"}
			if d := cmp.Diff(schemas.EventData(want), retries(r)[1]); d != "" || len(f.seen) != 1 {
				t.Errorf("%d requests (-want +got):\n%s", len(f.seen), d)
			}
		})
	}
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	tick, late := time.NewTicker(time.Millisecond), time.After(30*time.Second)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("it never happened")
		}
	}
}

// TestRetryContinuesAfterACrashAtEveryEvent has another host continue the session after each event of a run with
// retries.
func TestRetryContinuesAfterACrashAtEveryEvent(t *testing.T) {
	t.Parallel()
	whole := looptest.New(t, (&failing{n: 2}).model(), retrying(time.Millisecond))
	whole.Deliver("p1", looptest.Prompt("go"))
	whole.WantEnd(schemas.EndNoToolCalls)
	events := whole.Events()
	for n := range events {
		replies := 0
		r := looptest.New(t, nil)
		appendTo(t, r, events[:n])
		for _, e := range events[:n] {
			if end, ok := e.Data.(*schemas.MessageEnd); ok && end.Message.Message.MessageRole() == schemas.RoleAssistant {
				replies++
			}
		}
		r.Host = r.NewHost((&failing{n: 2 - replies}).model(), retrying(time.Millisecond))
		r.Deliver("p1", looptest.Prompt("go"))
		r.WantEnd(schemas.EndNoToolCalls)
		if starts, ends := r.Count(schemas.EventAutoRetryStart), r.Count(schemas.EventAutoRetryEnd); starts != 2 ||
			ends != 1 {
			t.Errorf("after %d events: %d attempts begun, %d ended", n, starts, ends)
		}
	}
}

func TestBudgets(t *testing.T) {
	t.Parallel()
	model := looptest.ModelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		m := looptest.Say("hi")
		m.Usage = schemas.Usage{TotalTokens: 60, Cost: schemas.Cost{Total: 0.5}}
		return m, nil
	})
	r := looptest.New(t, model, func(o *host.Options) {
		o.Defaults.Limits = schemas.Limits{MaxCost: 9, SessionMaxTokens: 100, WarnShare: 0.5}
	})
	r.Deliver("p1", looptest.Prompt("one"))
	r.WantEnd(schemas.EndNoToolCalls)
	r.Deliver("p2", looptest.Prompt("two"))
	if end := end(r); end.TerminationReason != schemas.EndNoToolCalls {
		t.Errorf("below the limit: %+v", end)
	}
	r.Deliver("p3", looptest.Prompt("three"))
	if end := end(r); end.TerminationReason != schemas.EndBudget || end.ErrorMessage != driver.TextOverBudget ||
		end.Usage.TotalTokens != 0 {
		t.Errorf("over the limit: %+v", end)
	}
	warning := func(tokens int64) schemas.EventData {
		return &schemas.BudgetWarning{Scope: schemas.BudgetSession, Tokens: tokens, MaxTokens: 100}
	}
	if d := cmp.Diff([]schemas.EventData{warning(60), warning(60), warning(120)}, retries(r)); d != "" {
		t.Errorf("warnings (-want +got):\n%s", d)
	}
}
