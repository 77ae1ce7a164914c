package host_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

// slowTimers cancel a timer only when the test releases them.
type slowTimers struct{ cancelling, free chan struct{} }

func (s *slowTimers) Schedule(context.Context, string, time.Time, schemas.Timer) error { return nil }

func (s *slowTimers) Cancel(ctx context.Context, _, _ string) error {
	close(s.cancelling)
	select {
	case <-s.free:
	case <-ctx.Done():
	}
	return nil
}

func withDeadline(s *slowTimers) func(o *host.Options) {
	return func(o *host.Options) {
		o.Timers, o.Defaults.Limits = s, schemas.Limits{RunTimeoutMs: 60_000}
	}
}

// TestCloseWaitsForBackgroundWork closes a host whose only session has ended its run and is cancelling its timer.
func TestCloseWaitsForBackgroundWork(t *testing.T) {
	timers := &slowTimers{make(chan struct{}), make(chan struct{})}
	r := looptest.New(t, looptest.ToolThenDone(), withDeadline(timers))
	r.Deliver("p1", looptest.Prompt("go"))
	<-timers.cancelling
	if n := len(looptest.Stacks("slowTimers")); n != 1 {
		t.Errorf("%d goroutines take a timer back, want 1", n)
	}
	early, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Host.Close(early); !errors.Is(err, context.Canceled) {
		t.Errorf("closing without waiting gives %v", err)
	}
	close(timers.free)
	if err := r.Host.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if left := looptest.Stacks("slowTimers"); len(left) > 0 {
		t.Errorf("left behind:\n%s", strings.Join(left, "\n\n"))
	}
}

// TestCloseWaitsForDeliveries closes a host during a model call: it accepts nothing more, and the run ends first.
func TestCloseWaitsForDeliveries(t *testing.T) {
	t.Parallel()
	m := looptest.NewBlockingModel()
	r := looptest.New(t, looptest.ModelFunc(m.Answer))
	delivered := make(chan error, 1)
	go func() { delivered <- r.Host.Deliver(t.Context(), looptest.Command("p1", looptest.Prompt("go")), nil) }()
	<-m.Asked
	closed := make(chan error, 1)
	go func() { closed <- r.Host.Close(t.Context()) }()
	for !errors.Is(r.Host.Deliver(t.Context(), looptest.Command("x", &schemas.SetModes{}), nil), host.ErrClosed) {
		runtime.Gosched()
	}
	select {
	case err := <-closed:
		t.Errorf("closed with a delivery under way: %v", err)
	default:
	}
	close(m.Free)
	if err := <-delivered; err != nil {
		t.Error(err)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	r.WantEnd(schemas.EndNoToolCalls)
}

// TestCloseStopsDriversAtItsDeadline closes a host whose model sends nothing.
func TestCloseStopsDriversAtItsDeadline(t *testing.T) {
	t.Parallel()
	m := looptest.NewBlockingModel()
	r := looptest.New(t, looptest.ModelFunc(m.Answer))
	delivered := make(chan error, 1)
	go func() { delivered <- r.Host.Deliver(t.Context(), looptest.Command("p1", looptest.Prompt("go")), nil) }()
	<-m.Asked
	now, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Host.Close(now); !errors.Is(err, context.Canceled) {
		t.Errorf("closed with %v", err)
	}
	if err := <-delivered; err == nil {
		t.Error("the delivery that was stopped has no error")
	}
	if n := r.Count(schemas.EventAgentEnd); n != 0 {
		t.Error("the run of a closed host has ended")
	}
}
