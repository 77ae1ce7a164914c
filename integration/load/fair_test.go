//go:build unix

package load_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/worker"
)

// turnstile is a tool that records the sessions of its calls in the order in which they start. The first call waits
// until the test opens the turnstile.
type turnstile struct {
	begun  chan struct{}
	opened chan struct{}

	mu    sync.Mutex
	order []string
}

func (s *turnstile) execute(ctx context.Context, call tools.Call) (schemas.ToolResult, error) {
	s.mu.Lock()
	s.order = append(s.order, call.Session)
	first := len(s.order) == 1
	s.mu.Unlock()
	if first {
		close(s.begun)
		select {
		case <-s.opened:
		case <-ctx.Done():
			return schemas.ToolResult{}, tools.Interrupted(ctx)
		}
	}
	return schemas.TextResult("passed"), nil
}

// TestAThousandCallsDoNotStarveOne has one worker with one slot. While a session has a thousand calls for it, another
// session makes a single call. That call must wait behind one call window only, not behind the thousand calls.
func TestAThousandCallsDoNotStarveOne(t *testing.T) {
	server := system.StartServer(t, false)
	ended := make(chan string, 2)
	r := startRunner(t, server.ClientURL(), model{batch(bigBatch), oneByOne(1)}, host.DefaultCallWindow, ended)
	stile := &turnstile{begun: make(chan struct{}), opened: make(chan struct{})}
	w, err := worker.New(worker.Options{ID: "w", NC: system.Connect(t, server.ClientURL(), "worker").NATS(),
		Concurrency: 1, Tools: []tools.Tool{{
			ToolDefinition: schemas.ToolDefinition{Name: toolTally}, Execute: stile.execute,
		}}})
	if err != nil {
		t.Fatal(err)
	}
	system.Serve(t, w.Run)
	if err := r.Toolbox.Wait(t.Context(), toolTally); err != nil {
		t.Fatal(err)
	}
	prompt(t, r, "greedy")
	await(t, stile.begun, 1, "calls have begun")
	system.Eventually(t, "the greedy session's window is in the queue",
		func() bool { return inQueue(t, r) == host.DefaultCallWindow })
	prompt(t, r, aloneSession)
	system.Eventually(t, "the other session's call is in the queue",
		func() bool { return inQueue(t, r) == host.DefaultCallWindow+1 })
	close(stile.opened)
	await(t, ended, 2, "runs have ended")
	stile.mu.Lock()
	defer stile.mu.Unlock()
	if at := slices.Index(stile.order, aloneSession); at != host.DefaultCallWindow || len(stile.order) != bigBatch+1 {
		t.Errorf("of %d calls, the single one is at position %d, want %d", len(stile.order), at, host.DefaultCallWindow)
	}
	checkLog(t, r, "greedy", bigBatch)
}
