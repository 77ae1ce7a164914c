package crashpoints_test

import (
	"sync"
	"time"

	"github.com/loopbus/loopbus/integration/internal/wire"
)

// tap counts the points that one process passes in the current trial, and injects the fault of the process.
type tap struct {
	stage   *stage
	process *process

	mu     sync.Mutex
	trial  *trial // nil between trials
	fault  fault
	record bool
	count  map[pointKind]int
	await  string // reply subject of the message after whose answer the fault is injected
	fired  bool
	late   bool // the process was frozen: its messages are out of date
	since  time.Time
}

// pause is the minimum length of a freeze: it is long enough that a runner must notice that it may have lost its
// sessions.
const pause = 1100 * time.Millisecond

// arm starts a trial. With record, the points are recorded.
func (w *tap) arm(tr *trial, record bool) {
	f := tr.nextFault()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trial, w.fault, w.record, w.count = tr, f, record, map[pointKind]int{}
	w.await, w.fired = "", false
}

// disarm ends the trial.
func (w *tap) disarm() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trial = nil
}

// isLate reports whether the process was frozen.
func (w *tap) isLate() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.late
}

// awaitPause waits until the process has been frozen for long enough.
func (w *tap) awaitPause() {
	w.mu.Lock()
	since := w.since
	w.mu.Unlock()
	<-time.After(time.Until(since.Add(pause)))
}

// Sent implements [wire.Tap].
func (w *tap) Sent(m *wire.Message) wire.Verdict {
	w.mu.Lock()
	tr, late := w.trial, w.late
	w.mu.Unlock()
	if tr == nil || late {
		return wire.Pass
	}
	p, ok := pointOf(m, tr.session, w.stage.delivered)
	if !ok {
		return wire.Pass
	}
	v := w.reach(p, m.Reply)
	if v == wire.Pass || v == wire.Probe {
		tr.passes(p, m)
	}
	return v
}

// Received implements [wire.Tap].
func (w *tap) Received(m *wire.Message) wire.Verdict {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.trial == nil || w.late {
		return wire.Pass
	}
	if d, ok := deliveryOf(m); ok {
		w.stage.deliver(m.Reply, d)
		w.trial.witness(d.session).delivered(d)
		w.trial.received(d)
	}
	if w.await != "" && m.Subject == w.await {
		return w.fire()
	}
	return wire.Pass
}

// Probed implements [wire.Tap].
func (w *tap) Probed() wire.Verdict {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fire()
}

// reach counts a point. reply is the subject of its answer, if it has one.
func (w *tap) reach(p point, reply string) wire.Verdict {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.trial == nil || w.late {
		return wire.Pass
	}
	before := w.count[p.kind]
	p.n = before + max(p.events, 1)
	w.count[p.kind] = p.n
	if w.record {
		w.trial.passed(p)
	}
	if w.fired || w.fault.at.kind != p.kind || w.fault.at.n <= before || w.fault.at.n > p.n {
		return wire.Pass
	}
	switch {
	case !w.fault.after():
		return w.fire()
	case reply == "":
		return wire.Probe
	}
	w.await = reply
	return wire.Pass
}

// fire injects the fault. The caller holds the lock.
func (w *tap) fire() wire.Verdict {
	if w.trial == nil { // the second of two faults, at the very end
		return wire.Pass
	}
	w.fired, w.await = true, ""
	w.trial.crash()
	v := w.fault.verdict()
	if v != wire.Cut {
		w.late, w.since = v == wire.Freeze, time.Now()
		w.trial.stopped <- w.process
	}
	return v
}
