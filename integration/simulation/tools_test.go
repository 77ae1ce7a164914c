package simulation_test

import (
	"context"
	"fmt"
	"time"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools/extension"
)

// definitions are all tools: one for each effect class, one that runs alone, and the one that starts sub-agents.
var definitions = []schemas.ToolDefinition{
	{Name: "look", Effect: schemas.EffectReadOnly},
	{Name: "put", Effect: schemas.EffectIdempotent},
	{Name: "pay", Effect: schemas.EffectUnsafe},
	{Name: "alone", Effect: schemas.EffectUnsafe, ExecutionMode: schemas.ExecuteSequential},
	extension.Agent(),
}

var toolNames = []weighted[string]{{30, "look"}, {20, "put"}, {35, "pay"}, {8, "alone"}, {3, "nowhere"},
	{25, schemas.ToolAgent}}

type toolbox struct{}

func (toolbox) Definitions(context.Context) ([]schemas.ToolDefinition, error) {
	return definitions, nil
}

// dispatcher stores calls in the workers' queue.
type dispatcher struct{ *runner }

func (d *dispatcher) Dispatch(ctx context.Context, req schemas.ToolRequest, again bool) error {
	d.acts("calls a tool", req.Session)
	if again {
		known, err := ask(ctx, d.process, "look "+req.Session, func() (bool, error) { return d.knows(req), nil })
		if known || err != nil {
			return err
		}
	}
	d.note("%s: dispatches %s of %s, %s", d.name, req.Call, req.Session, req.ToolName)
	return d.request(ctx, "dispatch "+req.Session, func() error {
		d.putCall(req)
		return nil
	})
}

func (d *dispatcher) Cancel(_ context.Context, session string, call schemas.CallKey, _ string) error {
	d.send("cancel "+session, func() { d.cancelCall(session, call) })
	return nil
}

// toolWait is how long a worker may send no heartbeat before its call is redelivered to another worker.
const toolWait = 30 * time.Second

// job is a call in the workers' queue.
type job struct {
	req        schemas.ToolRequest
	deliveries int
	cancelled  chan struct{} // closed when the call is cancelled
	settled    bool
}

// putCall stores a call, unless it is a duplicate, and delivers it to a worker.
func (w *world) putCall(req schemas.ToolRequest) {
	key := callID(req)
	w.mu.Lock()
	defer w.mu.Unlock()
	if at, known := w.seenCalls[key]; known && time.Since(at) < duplicateWindow {
		return
	}
	j := &job{req: req, cancelled: make(chan struct{})}
	w.seenCalls[key], w.jobs[key] = time.Now(), j
	w.running.Go(func() { w.work(j) })
}

// knows reports whether the call or its result is stored.
func (w *world) knows(req schemas.ToolRequest) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.underWay(req.Session, req.Call)
}

// underWay reports whether the call is in the workers' queue or its result in the inbox. The caller holds the lock.
func (w *world) underWay(session string, call schemas.CallKey) bool {
	if w.jobs[session+"/"+string(call)] != nil {
		return true
	}
	for _, m := range w.queue.messages {
		if r, ok := m.cmd.Data.(*schemas.ToolResponse); ok && m.cmd.Session == session && r.Call == call {
			return true
		}
	}
	return false
}

func (w *world) cancelCall(session string, call schemas.CallKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if j := w.jobs[session+"/"+string(call)]; j != nil && !isClosed(j.cancelled) {
		close(j.cancelled)
	}
}

// death is the point of a call at which its worker dies or is suspended.
type death int

const (
	survives death = iota
	diesBefore
	diesBetween  // after the execution, before the answer
	diesAnswered // after the answer, before the acknowledgement
	sleepsLong   // is suspended so long that another worker gets the call
)

var deaths = []weighted[death]{{86, survives}, {4, diesBefore}, {4, diesBetween}, {3, diesAnswered}, {3, sleepsLong}}

// work delivers a call until it is settled.
func (w *world) work(j *job) {
	for !w.deliverCall(j) {
		time.Sleep(toolWait)
		w.mu.Lock()
		settled := j.settled
		w.mu.Unlock()
		if settled {
			return
		}
	}
}

// deliverCall delivers a call to a worker. It reports whether that worker has settled it.
func (w *world) deliverCall(j *job) bool {
	key := callID(j.req)
	r := w.draw("worker " + key)
	j.deliveries++
	first, how := j.deliveries == 1, choose(r, deaths)
	if !w.faulty() {
		how = survives
	}
	time.Sleep(r.latency())
	repeatable := j.req.Effect.Repeatable()
	switch {
	case how == diesBefore:
		return false
	case !first && !repeatable:
		return w.answer(j, r, how, schemas.ErrorResult(schemas.TextOutcomeUnknown), true)
	case how == sleepsLong: // and continues when another worker has the call
		w.running.Go(func() {
			result, isError := w.execute(j, r, toolWait+r.about(10*time.Second))
			w.answer(j, r, survives, result, isError)
		})
		return false
	}
	result, isError := w.execute(j, r, r.about(time.Second))
	return how != diesBetween && w.answer(j, r, how, result, isError)
}

// execute runs a tool and counts it.
func (w *world) execute(j *job, r draw, takes time.Duration) (schemas.ToolResult, bool) {
	stubborn := r.percent(10)
	fails := r.percent(15)
	if isClosed(j.cancelled) { // the cancellation arrived before the call
		return schemas.ErrorResult(loop.TextAborted), true
	}
	w.count(j.req)
	cancelled := j.cancelled
	if stubborn {
		cancelled = nil
	}
	select {
	case <-time.After(takes):
	case <-cancelled:
		return schemas.ErrorResult(loop.TextAborted), true
	}
	if fails {
		return schemas.ErrorResult("it did not work"), true
	}
	return schemas.TextResult("done"), false
}

// answer sends the result to the session's inbox, sometimes twice or late, and settles the call unless the worker dies
// first.
func (w *world) answer(j *job, r draw, how death, result schemas.ToolResult, isError bool) (settled bool) {
	twice, late := w.faulty() && r.percent(4), w.faulty() && r.percent(4)
	if late {
		time.Sleep(r.between(5*time.Second, 25*time.Second))
	}
	a := j.req.Answer("w", result, isError, 0)
	cmd := schemas.Command{ID: a.ID, Session: j.req.Session, Data: &a.ToolResponse}
	w.queue.put(cmd, "")
	if how == diesAnswered {
		return false
	}
	time.Sleep(r.latency())
	w.mu.Lock()
	delete(w.jobs, callID(j.req))
	j.settled = true
	w.mu.Unlock()
	if twice { // after the duplicate window of the first
		time.Sleep(r.about(5 * time.Second))
		w.queue.put(cmd, "")
	}
	return true
}

// count counts an execution.
func (w *world) count(req schemas.ToolRequest) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := callID(req)
	w.executions[key]++
	w.tell("tool %s executes %s", req.ToolName, key)
	if s := w.sessions[req.Session]; s.state.Seq < req.StartSeq {
		w.fail(fmt.Sprintf("%s is executed, but its tool_execution_start is not stored", key))
	}
}

// callID returns the key under which a call's executions are counted.
func callID(req schemas.ToolRequest) string { return req.Session + "/" + string(req.Call) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
