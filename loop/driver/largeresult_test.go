package driver_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/internal/jsonroom"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

// TestResultsWithoutRoomAreDeliveredAgain has so many large replies and results wait for services that another result
// may not wait: its delivery fails, to be repeated, and nothing of it is in the log. The test is not parallel, as the
// room is that of the process.
func TestResultsWithoutRoomAreDeliveredAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := looptest.New(t, looptest.ToolThenDone("t1"), served(agree, schemas.HookAfterToolCall))
		r.Deliver("p1", looptest.Prompt("go"))
		id, result := looptest.AnswerTo(r.Tools.Take(t), strings.Repeat("x", 1<<20))
		deliver := func() chan error {
			done := make(chan error, 1)
			go func() { done <- r.Host.Deliver(t.Context(), looptest.Command(id, result), nil) }()
			synctest.Wait()
			return done
		}
		const all = 128 << 20
		asked, err := jsonroom.Asked.Wait(t.Context(), all)
		if err != nil {
			t.Fatal(err)
		}
		waiting, stop := context.WithCancel(t.Context())
		defer stop()
		waited := make(chan error, 1)
		go func() {
			_, err := jsonroom.Asked.Wait(waiting, all)
			waited <- err
		}()
		synctest.Wait() // until the other one waits
		if err := <-deliver(); !errors.Is(err, schemas.ErrLater) {
			t.Fatalf("delivered with %v, want ErrLater", err)
		}
		if n := r.Count(schemas.EventToolExecutionEnd) + r.Count(schemas.EventHookDecision); n != 0 {
			t.Fatalf("%d results and decisions are in the log", n)
		}
		stop()
		<-waited
		again := deliver()
		if n := r.Count(schemas.EventToolExecutionEnd); n != 0 || len(again) > 0 {
			t.Error("the result did not wait for room")
		}
		asked()
		if err := <-again; err != nil {
			t.Fatal(err)
		}
		r.WantEnd(schemas.EndNoToolCalls)
	})
}

// TestAResultIsNotLostWithTheDeliveryThatDrives stops the delivery that drives while a service is asked about the
// result that another delivery has brought: the other one drives on, and is not acknowledged before its result is
// stored.
func TestAResultIsNotLostWithTheDeliveryThatDrives(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		asks, first := 0, make(chan struct{})
		service := func(ctx context.Context, _ schemas.HookRef, _ schemas.HookRequest) (schemas.HookAnswer, error) {
			switch asks++; asks {
			case 1:
				<-first
			case 2:
				<-ctx.Done()
				return schemas.HookAnswer{}, ctx.Err()
			}
			return schemas.HookAnswer{}, nil
		}
		r := looptest.New(t, looptest.ToolThenDone("t1", "t2"), served(service, schemas.HookAfterToolCall))
		r.Deliver("p1", looptest.Prompt("go"))
		deliver := func(ctx context.Context) chan error {
			id, result := looptest.AnswerTo(r.Tools.Take(t), "ok")
			done := make(chan error, 1)
			go func() { done <- r.Host.Deliver(ctx, looptest.Command(id, result), nil) }()
			synctest.Wait()
			return done
		}
		driving, stop := context.WithCancelCause(t.Context())
		drives, brings := deliver(driving), deliver(t.Context())
		close(first)
		synctest.Wait() // until the service is asked about the second result
		stop(driver.ErrStopped)
		if err := <-drives; err == nil {
			t.Error("the delivery that was stopped would be acknowledged")
		}
		if err := <-brings; err != nil {
			t.Error(err)
		}
		if n := r.Count(schemas.EventToolExecutionEnd); n != 2 {
			t.Fatalf("%d results of 2 are stored: %v", n, r.Types())
		}
		r.WantEnd(schemas.EndNoToolCalls)
	})
}
