package agent_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/loopbus/loopbus/loop/agentevent"
	"github.com/loopbus/loopbus/schemas"
)

// errStuck is what barriers give way with once the watchdog has barked.
var errStuck = errors.New("scenario stuck")

// A trace is the list of events that have happened, and the barriers that wait for one of them. An event lets barriers
// pass only when it has been marked as emitted, that is after what was bound to it.
type trace struct {
	mu      sync.Mutex
	events  []tracedEvent
	waiting []*barrier
	begun   map[string]bool // calls that have been executed, by id
	stuck   chan struct{}
}

type tracedEvent struct {
	typ     schemas.EventType
	callID  string
	role    schemas.Role
	value   any // the event in normal form
	emitted bool
}

type barrier struct {
	what string
	met  func() bool
	open chan struct{}
}

func newTrace() *trace { return &trace{begun: make(map[string]bool), stuck: make(chan struct{})} }

// record appends an event and returns it with its index.
func (t *trace) record(e agentevent.Event) (int, tracedEvent) {
	event := tracedEvent{typ: e.Type, callID: e.ToolCallID, value: normalEvent(jsonValue(e))}
	switch {
	case e.Type == schemas.EventMessageUpdate:
		event.role = schemas.RoleAssistant
	case e.Message != nil:
		event.role = e.Message.MessageRole()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events = append(t.events, event)
	return len(t.events) - 1, event
}

// emit marks an event as emitted and opens the barriers that it was missing for.
func (t *trace) emit(index int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.events[index].emitted = true
	t.openBarriers()
}

func (t *trace) openBarriers() {
	t.waiting = slices.DeleteFunc(t.waiting, func(b *barrier) bool {
		if !b.met() {
			return false
		}
		close(b.open)
		return true
	})
}

func (t *trace) hasEmitted(p pattern) bool {
	n := 0
	for _, e := range t.events {
		if p.matches(e) {
			if n++; n == p.nth() {
				return e.emitted
			}
		}
	}
	return false
}

// count is the number of events recorded: the "after" of whatever happens now.
func (t *trace) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.events)
}

// wait passes a barrier. The abort signal of the run is that of ctx; it matters only to a pattern that asks for it.
func (t *trace) wait(ctx context.Context, p pattern) error {
	if p.Abort {
		return t.pass(p.String(), func() bool { return false }, ctx.Done())
	}
	return t.pass(p.String(), func() bool { return t.hasEmitted(p) }, nil)
}

// waitBeyond returns once more than n events have been emitted, or when ended is closed.
func (t *trace) waitBeyond(n int, ended <-chan struct{}) {
	_ = t.pass("a first event", func() bool { return len(t.events) > n && t.events[n].emitted }, ended)
}

// pass returns once met holds, which is called with the lock held, or instead is closed. It fails only when the
// scenario is stuck.
func (t *trace) pass(what string, met func() bool, instead <-chan struct{}) error {
	b := &barrier{what: what, met: met, open: make(chan struct{})}
	t.mu.Lock()
	if met() {
		t.mu.Unlock()
		return nil
	}
	t.waiting = append(t.waiting, b)
	t.mu.Unlock()
	select {
	case <-b.open:
		return nil
	case <-instead:
		t.mu.Lock()
		defer t.mu.Unlock()
		t.waiting = slices.DeleteFunc(t.waiting, func(w *barrier) bool { return w == b })
		return nil
	case <-t.stuck:
		return errStuck
	}
}

// begin says that a call is executed, and holds it until the calls it overlaps with are, too. In the reference all
// calls of a batch begin before one of them does anything; which goroutine comes first must not decide an outcome.
func (t *trace) begin(callID string) error {
	t.mu.Lock()
	t.begun[callID] = true
	t.openBarriers()
	t.mu.Unlock()
	return t.pass("the batch to begin", t.batchBegun, nil)
}

// batchBegun relies on the rule that nothing runs before every call is prepared: of the calls announced in this turn,
// those without an end are the ones to be executed.
func (t *trace) batchBegun() bool {
	open := map[string]bool{}
	for _, e := range t.events {
		switch e.typ {
		case schemas.EventTurnStart:
			clear(open)
		case schemas.EventToolExecutionStart:
			open[e.callID] = !t.begun[e.callID]
		case schemas.EventToolExecutionEnd:
			delete(open, e.callID)
		}
	}
	for _, waiting := range open {
		if waiting {
			return false
		}
	}
	return true
}

// String lists the events so far and the barriers nobody has passed.
func (t *trace) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	for i, e := range t.events {
		fmt.Fprintf(&b, "%3d %s\n", i+1, jsonText(e.value))
	}
	for _, w := range t.waiting {
		fmt.Fprintf(&b, "waiting for %s\n", w.what)
	}
	return b.String()
}
