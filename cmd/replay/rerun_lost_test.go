package main

import (
	"context"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/cmd/replay/internal/rerun"
	"github.com/loopbus/loopbus/schemas"
)

// TestRerunOutlivesItsRunner takes the runner away in the middle of a reply: another one goes on, and the calls are
// answered from the log still.
func TestRerunOutlivesItsRunner(t *testing.T) {
	t.Parallel()
	r := newRig(t, twoModels())
	kill := r.runner("r1")
	r.prompted("s1", "note it")
	reached, dead := make(chan struct{}, 16), make(chan struct{})
	r.model.gate = func(ctx context.Context, req schemas.ModelRequest) {
		if req.SessionID != "again" || len(req.Messages) < 3 {
			return
		}
		reached <- struct{}{}
		select {
		case <-dead:
		case <-ctx.Done():
		}
	}
	ended := make(chan result, 1)
	go func() { ended <- r.replay("rerun", "s1", "--at", "1", "--model", "m2", "--id", "again") }()
	<-reached
	kill()
	r.runner("r2")
	close(dead)
	if got := <-ended; got.code != 0 || !strings.Contains(got.stdout, "Done by m2.") ||
		!strings.Contains(got.stdout, "3 calls answered from the log of s1, 2 not in it") {
		t.Errorf("%+v", got)
	}
	sources := map[string]bool{}
	for _, e := range r.log("again") {
		sources[e.Source] = true
	}
	if !sources["/loopbus/runner/r1"] || !sources["/loopbus/runner/r2"] {
		t.Errorf("the log is of %v", sources)
	}
}

// TestRerunIsTakenUpAgain takes the connection of the process that answers away: asked for again, it answers what waits
// as it would have, and does nothing twice.
func TestRerunIsTakenUpAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, twoModels())
	r.runner("r1")
	r.prompted("s1", "note it")
	ctx, cancel := context.WithTimeout(t.Context(), wait)
	defer cancel()
	lost, err := client.Connect(r.server.ClientURL(), client.Options{Name: "lost"})
	if err != nil {
		t.Fatal(err)
	}
	defer lost.Close()
	plan, err := rerun.NewPlan("s1", 1, r.store.Read(ctx, "s1", 1))
	if err != nil {
		t.Fatal(err)
	}
	m2 := ref("m2")
	first := &rerun.Rerun{Plan: plan, Client: lost, JetStream: jetstreamOf(t, lost), Logger: discard(),
		Choices: rerun.Choices{Session: "again", Model: &m2},
		Show: func(i client.Item) error {
			if i.Event != nil && i.Event.Type() == schemas.EventToolExecutionEnd {
				lost.NATS().Close()
			}
			return nil
		}}
	if _, err := first.Do(ctx); err == nil {
		t.Fatal("the rerun has gone on without its connection")
	}
	if got := r.replay("rerun", "s1", "--at", "1", "--model", "m1", "--id", "again"); got.code != 1 ||
		!strings.Contains(got.stderr, "is not a rerun of this event with these settings: name another with --id") {
		t.Errorf("another rerun of that name: %+v", got)
	}
	got := r.replay("rerun", "s1", "--at", "1", "--model", "m2", "--id", "again")
	if got.code != 0 || !strings.Contains(got.stdout, "3 calls answered from the log of s1, 2 not in it") {
		t.Fatalf("%+v", got)
	}
	prompts, runs := 0, 0
	for _, e := range r.log("again") {
		switch d := e.Data.(type) {
		case *schemas.CommandAccepted:
			if d.Kind == schemas.CommandPrompt {
				prompts++
			}
		case *schemas.AgentStart:
			runs++
		}
	}
	if prompts != 1 || runs != 1 {
		t.Errorf("%d prompts, %d runs, want one of each", prompts, runs)
	}
	if n := len(r.results("again")); n != 5 {
		t.Errorf("%d results: %q", n, r.results("again"))
	}
}

// TestRerunThatIsInterruptedAbortsItsRun holds that nothing goes on for whose tools nobody answers any more.
func TestRerunThatIsInterruptedAbortsItsRun(t *testing.T) {
	t.Parallel()
	r := newRig(t, twoModels())
	r.runner("r1")
	r.prompted("s1", "note it")
	reached := make(chan struct{}, 16)
	r.model.gate = func(ctx context.Context, req schemas.ModelRequest) {
		if req.SessionID == "again" {
			reached <- struct{}{}
			<-ctx.Done()
		}
	}
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	var stdout, stderr strings.Builder
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{"rerun", "s1", "--at", "1", "--id", "again", "--nats", r.server.ClientURL()},
			outside(nil, &stdout, &stderr))
	}()
	<-reached
	interrupt()
	if code := <-ended; code == 0 || !strings.Contains(stderr.String(), "the run of session again is aborted") {
		t.Errorf("status %d, %s", code, stderr.String())
	}
	log := r.log("again")
	end, ok := log[len(log)-1].Data.(*schemas.AgentEnd)
	if !ok || end.TerminationReason != schemas.EndAbort {
		t.Errorf("the log ends with %+v", log[len(log)-1].Data)
	}
	r.nothingLeft()
}
