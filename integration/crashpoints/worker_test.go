package crashpoints_test

import (
	"cmp"
	"context"
	"testing"
	"time"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/worker"
)

// The tools: one of each effect class, one that runs until the scenario or an abort ends it, and one that requires
// approval.
const (
	toolLook = "look" // read_only
	toolNote = "note" // idempotent
	toolPay  = "pay"  // unsafe
	toolHold = "hold" // unsafe
	toolAsk  = "ask"  // unsafe
)

// neverLost is an ack wait that is too long to matter.
const neverLost = 5 * time.Minute

// startWorker starts a worker in the stage and returns once its tools are announced. A trial may be running. As the
// supervisor of a process would, it starts another worker if one ends before that: under load its first announcement
// may take too long.
func (l *stage) startWorker(t testing.TB, tr *trial) {
	t.Helper()
	for n := 1; ; n++ {
		p, announced := l.newWorker(t, tr)
		l.worker = p
		if p.await(announced) { // the toolbox may still have the announcements of the worker before
			break
		}
		if n == maxTries {
			t.Fatalf("no worker announces its tools: %s", p.describe())
		}
		l.graves.Go(p.bury)
	}
	ctx, cancel := context.WithTimeout(l.ctx, deadline)
	defer cancel()
	if err := l.toolbox.Wait(ctx, toolLook, toolNote, toolPay, toolHold, toolAsk); err != nil {
		t.Fatal(err)
	}
}

// newWorker starts a worker, and returns it and what is closed once its tools are announced.
func (l *stage) newWorker(t testing.TB, tr *trial) (p *process, announced <-chan struct{}) {
	t.Helper()
	p = startProcess(t, l, l.name("worker"), tr)
	ready := newSignal()
	w, err := worker.New(worker.Options{
		ID: p.id, NC: p.conn.NATS(), JS: p.conn.JetStream(), Tools: l.tools(p), Concurrency: 2,
		AckWait: cmp.Or(l.o.workerAckWait, neverLost), StopTimeout: 1, Announced: ready.fire,
		Logger: l.log.Logger(),
	})
	if err != nil {
		t.Fatal(err)
	}
	p.run(w.Run)
	return p, ready.done
}

// tools returns the tools of one worker. Each counts its executions, and answers with its name and the call's id.
func (l *stage) tools(p *process) (served []tools.Tool) {
	for name, effect := range map[string]schemas.Effect{
		toolLook: schemas.EffectReadOnly, toolNote: schemas.EffectIdempotent, toolPay: schemas.EffectUnsafe, toolHold: "",
		toolAsk: "",
	} {
		served = append(served, tools.Tool{
			ToolDefinition: schemas.ToolDefinition{Name: name, Effect: effect},
			Execute: func(ctx context.Context, call tools.Call) (schemas.ToolResult, error) {
				return l.execute(ctx, p, name, call)
			},
		})
	}
	return served
}

func (l *stage) execute(ctx context.Context, p *process, name string, call tools.Call) (schemas.ToolResult, error) {
	tr := l.current(call.Session)
	if tr == nil {
		return schemas.ToolResult{}, tools.Failf("session %s is over", call.Session)
	}
	tr.begin(call.ID)
	if !p.moment(point{kind: pointTool, label: name}) {
		return schemas.ToolResult{}, tools.ErrAborted
	}
	if name == toolHold {
		tr.hold(ctx, p)
	}
	if err := tools.Interrupted(ctx); err != nil {
		return schemas.ToolResult{}, err
	}
	if name == toolAsk {
		return schemas.TextResult(string(call.Arguments)), nil
	}
	return schemas.TextResult(name + " " + call.ID), nil
}
