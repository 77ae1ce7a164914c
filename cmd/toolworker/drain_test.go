package main

import (
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/worker"
)

func TestDrainLetsCallsFinish(t *testing.T) {
	t.Parallel()
	r, g := newRig(t), newGate()
	tool := newTool("gate", "", g.execute)
	w := r.serve(1, worker.Options{ID: "w1", Tools: []tools.Tool{tool}})
	r.call("gate", `{}`)
	bustest.Within(t, g.begun)
	stopped := make(chan error, 1)
	go func() { stopped <- w.stop() }()
	bustest.Eventually(t, "announcements are withdrawn while the call goes on",
		func() bool { return r.announcement("gate", "w1") == nil })
	second := r.call("gate", `{}`)
	select {
	case err := <-stopped:
		t.Fatalf("stopped with a call at work: %v", err)
	case key := <-g.begun:
		t.Fatalf("took call %s while stopping", key)
	case <-time.After(100 * time.Millisecond):
	}
	g.pass <- struct{}{}
	r.wantText("passed", false)
	if err := bustest.Within(t, stopped); err != nil {
		t.Error(err)
	}
	r.serve(1, worker.Options{ID: "w2", Tools: []tools.Tool{tool}}) // gets what was left
	if key := bustest.Within(t, g.begun); key != string(second.Call) {
		t.Errorf("call %s", key)
	}
	g.pass <- struct{}{}
	r.wantText("passed", false)
	r.settled()
}

func TestDrainCutsLongCallsOff(t *testing.T) {
	t.Parallel()
	r, g := newRig(t), newGate()
	w := r.serve(1, worker.Options{StopTimeout: 50 * time.Millisecond,
		Tools: []tools.Tool{newTool("gate", "", g.execute)}})
	r.call("gate", `{}`)
	bustest.Within(t, g.begun)
	if err := w.stop(); err != nil {
		t.Error(err)
	}
	r.wantText("Operation aborted", true)
	r.settled()
}
