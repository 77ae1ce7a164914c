package main

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/dispatch"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/bash"
	"github.com/loopbus/loopbus/tools/worker"
	"github.com/loopbus/loopbus/tools/workspace"
)

// Whoever holds the pipe open is alive: when its end comes, the shell, its child and the child's child are gone.
func TestCancelKillsTheProcessGroup(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	root := t.TempDir()
	ws, err := workspace.Open(workspace.Options{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.Close() })
	fifo := filepath.Join(root, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	r.serve(1, worker.Options{Tools: []tools.Tool{bash.New(bash.Options{Workspace: ws, Environ: os.Environ(),
		TempDir: t.TempDir()})}})
	req := r.call("bash", `{"command":"exec 3>fifo; (bash -c 'bash -c \"echo ready >&3; sleep 300\" & wait' & wait)"}`)
	pipe, err := os.Open(fifo)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pipe.Close() }()
	ready := make([]byte, 6)
	if _, err := io.ReadFull(pipe, ready); err != nil {
		t.Fatal(err)
	}
	if err := dispatch.New(r.conn).Cancel(r.ctx(), req.Session, req.Call, req.Nonce); err != nil {
		t.Fatal(err)
	}
	r.wantText("Command aborted", true)
	ended := make(chan error, 1)
	go func() { _, err := pipe.Read(ready); ended <- err }()
	if err := bustest.Within(t, ended); err != io.EOF {
		t.Errorf("somebody still holds the pipe: %v", err)
	}
	r.settled()
}

func TestCancelBeforeTheCallBegins(t *testing.T) {
	t.Parallel()
	r, g := newRig(t), newGate()
	r.serve(1, worker.Options{Tools: []tools.Tool{newTool("gate", "", g.execute)}})
	first := r.call("gate", `{}`)
	bustest.Within(t, g.begun)
	second := r.call("gate", `{}`)
	// Cancellations are taken in order: when the first call ends, that of the second has arrived.
	for _, req := range []schemas.ToolRequest{second, first} {
		if err := dispatch.New(r.conn).Cancel(r.ctx(), req.Session, req.Call, req.Nonce); err != nil {
			t.Fatal(err)
		}
	}
	for _, req := range []schemas.ToolRequest{first, second} {
		if got := r.wantText("Operation aborted", true); got.Call != req.Call {
			t.Errorf("call %s answered, want %s", got.Call, req.Call)
		}
	}
	if len(g.begun) != 0 {
		t.Error("the cancelled call was executed")
	}
}
