package driver_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

// An abort does not wait for a service that is asked about inputs. What no service has answered for is screened after
// the run, before it can enter the next one.
func TestAnAbortDoesNotWaitForInputs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		asked, silent := map[string]int{}, false
		service := func(ctx context.Context, _ schemas.HookRef, req schemas.HookRequest) (schemas.HookAnswer, error) {
			mu.Lock()
			asked[req.CommandID]++
			wait := silent
			mu.Unlock()
			if !wait {
				return schemas.HookAnswer{}, nil
			}
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Second):
			}
			return schemas.HookAnswer{}, errors.New("no answer")
		}
		r := looptest.New(t, looptest.ToolThenDone("t1"), served(service, schemas.HookInput),
			func(o *host.Options) { o.AbortGrace = time.Millisecond })
		r.Deliver("p1", looptest.Prompt("go"))
		mu.Lock()
		silent = true
		mu.Unlock()
		var steers sync.WaitGroup
		for _, id := range []string{"s1", "s2", "s3"} {
			steers.Go(func() { r.Deliver(id, &schemas.Steer{Input: schemas.Input{Text: id}}) })
			synctest.Wait()
		}
		began := time.Now()
		r.Deliver("a1", new(schemas.Abort))
		steers.Wait()
		took := time.Duration(-1)
		for _, e := range r.Events() {
			if end, ok := e.Data.(*schemas.AgentEnd); ok && end.TerminationReason == schemas.EndAbort {
				took = e.Time.Sub(began)
			}
		}
		if took < 0 || took > time.Second {
			t.Errorf("the abort took %v: %v", took, r.Types())
		}
		if d := cmp.Diff(map[string]int{"p1": 1, "s1": 2, "s2": 1, "s3": 1}, asked); d != "" {
			t.Errorf("inquiries (-want +got):\n%s", d)
		}
	})
}

// What a service puts in place of inputs counts in the queues: an answer for which they have no room is none.
func TestAnswersForInputsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		text := strings.Repeat("x", 9<<20)
		service := func(_ context.Context, _ schemas.HookRef, req schemas.HookRequest) (schemas.HookAnswer, error) {
			if req.CommandID == "p1" {
				return schemas.HookAnswer{}, nil
			}
			return schemas.HookAnswer{Messages: schemas.Messages{
				&schemas.UserMessage{Content: schemas.Contents{schemas.Text{Text: text}}}}}, nil
		}
		r := looptest.New(t, looptest.ToolThenDone("t1"), served(service, schemas.HookInput))
		r.Deliver("p1", looptest.Prompt("go"))
		for _, id := range []string{"f1", "f2", "f3", "f4"} {
			r.Deliver(id, &schemas.FollowUp{Input: schemas.Input{Text: id}})
		}
		replaced, failed := 0, 0
		for _, e := range r.Events() {
			d, ok := e.Data.(*schemas.HookDecision)
			switch {
			case ok && len(d.Failures) > 0:
				failed++
				if want := "may have 33554432"; !strings.Contains(d.Failures[0].Error, want) || d.CommandID != "f4" {
					t.Errorf("%s: %s, want %q", d.CommandID, d.Failures[0].Error, want)
				}
			case ok && len(d.Messages) > 0:
				replaced++
			}
		}
		if replaced != 3 || failed != 1 {
			t.Errorf("%d inputs were replaced, and %d answers refused", replaced, failed)
		}
	})
}
