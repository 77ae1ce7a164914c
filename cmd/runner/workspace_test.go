package main

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus/registry"
	"github.com/loopbus/loopbus/cmd/internal/toolserve"
	"github.com/loopbus/loopbus/schemas"
)

// A runner alone puts its sessions and its tools into the same workspace.
func TestOneShotInAWorkspace(t *testing.T) {
	t.Parallel()
	p := once(t, "--workspace", "here", "--prompt", "!echo hi").wantExit(0)
	if got := p.stdout.String(); !strings.Contains(got, "  | hi\n") {
		t.Errorf("the command was not run:\n%s", got)
	}
}

// TestBashRunsOnTheMachineOfItsSession has bash served in two roots, one of them a workspace's, which is that of the
// runner's sessions.
func TestBashRunsOnTheMachineOfItsSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	there := t.TempDir()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- toolserve.Run(ctx, w.conn, toolserve.Options{
			ID: "w2", Workspace: "there", Tools: []string{"bash"}, Root: there, Concurrency: 1, StopTimeout: time.Second,
			Environ: os.Environ(),
		})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	box := registry.NewToolbox(w.conn, nil)
	t.Cleanup(box.Close)
	eventually(t, "both are announced", func() bool {
		all, err := box.Announcements(t.Context())
		return err == nil && len(all) == 2
	})
	path := write(t, "script.json", `[{"toolCalls":[{"name":"bash","arguments":{"command":"pwd"}}]},{"text":"done"}]`)
	start(t, nil, "--nats", w.url, "--workspace", "there", "--model", "scripted", "--script", path, "--http",
		"127.0.0.1:0", "--log-json").ready()
	w.prompt("s1")
	log := w.until("s1", 1, schemas.EventAgentEnd)
	var ends []*schemas.ToolExecutionEnd
	for _, e := range log {
		if end, ok := e.Data.(*schemas.ToolExecutionEnd); ok {
			ends = append(ends, end)
		}
	}
	if len(ends) != 1 || ends[0].Worker != "w2" || !strings.Contains(ends[0].Result.Content.JoinText(), there) {
		t.Errorf("results %+v", ends)
	}
}

func TestWorkspaceAndWindowAreChecked(t *testing.T) {
	t.Parallel()
	none := func(string) string { return "" }
	_, err := parse([]string{"--workspace", "a=b", "--max-calls-in-queue", "-1"}, none)
	if err == nil || !strings.Contains(err.Error(), "--workspace: ") ||
		!strings.Contains(err.Error(), "--max-calls-in-queue: ") {
		t.Errorf("got %v", err)
	}
	for flag, want := range map[string]int{"0": -1, "7": 7} {
		if o, err := parse([]string{"--max-calls-in-queue", flag}, none); err != nil || o.Options.Tools.Window != want {
			t.Errorf("--max-calls-in-queue %s: %+v, %v", flag, o, err)
		}
	}
	if o, err := parse(nil, none); err != nil || o.Options.Tools.Window != 16 {
		t.Errorf("by default: %v, %v", o.Options.Tools.Window, err)
	}
}
