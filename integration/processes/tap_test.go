//go:build unix

package processes_test

import (
	"fmt"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/integration/internal/wire"
	"github.com/loopbus/loopbus/schemas"
)

// Kinds of messages that are not events. The kind of an event is its type; it passes in the message of its commit.
const (
	passDispatch = "dispatch" // of a tool call
	passUpdate   = "update"
	passResult   = "result" // of a tool call, from its worker
	passAck      = "ack"    // of a command or a tool's result
	passSettle   = "settle" // of a tool call, by its worker
	passCommit   = "commit" // of any events
)

// point is the nth message of a kind that a process sends, from 1: right before it reaches the server, or right after
// the server has answered it and before the process has the answer.
type point struct {
	what  schemas.EventType // or one of the above
	n     int
	after bool
}

func (p point) String() string {
	when := "before"
	if p.after {
		when = "after"
	}
	return fmt.Sprintf("%s %s %d", when, p.what, p.n)
}

// tap runs an action when a process reaches a point, and then applies verdict to the message or to its answer.
type tap struct {
	at      point
	strike  func(c *command)
	verdict wire.Verdict
	struck  chan struct{} // closed after the action

	mu      sync.Mutex
	process *command
	passed  map[schemas.EventType]int
	await   string // reply subject of the awaited answer
}

// killAt returns a tap that kills its process at a point.
func killAt(at point) *tap {
	return newTap(at, wire.Kill, func(c *command) {
		if err := c.Kill(); err != nil {
			c.w.t.Error(err)
		}
	})
}

// watch returns a tap that only counts.
func watch() *tap { return newTap(point{}, wire.Pass, nil) }

func newTap(at point, verdict wire.Verdict, strike func(*command)) *tap {
	return &tap{at: at, strike: strike, verdict: verdict, struck: make(chan struct{}), passed: map[schemas.EventType]int{}}
}

// Sent implements [wire.Tap].
func (w *tap) Sent(m *wire.Message) wire.Verdict {
	w.mu.Lock()
	defer w.mu.Unlock()
	here := false
	kinds := kindsOf(m)
	for _, what := range kinds {
		w.passed[what]++
		here = here || w.at.n > 0 && what == w.at.what && w.passed[what] == w.at.n
	}
	switch {
	case !here:
		return wire.Pass
	case !w.at.after:
		return w.fire()
	case m.Reply == "":
		return wire.Probe
	}
	w.await = m.Reply
	return wire.Pass
}

// Received implements [wire.Tap].
func (w *tap) Received(m *wire.Message) wire.Verdict {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.await == "" || w.await != m.Subject {
		return wire.Pass
	}
	w.await = ""
	return w.fire()
}

// Probed implements [wire.Tap].
func (w *tap) Probed() wire.Verdict {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fire()
}

// count returns how many messages of a kind have passed.
func (w *tap) count(what schemas.EventType) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.passed[what]
}

func (w *tap) fire() wire.Verdict {
	w.strike(w.process)
	close(w.struck)
	return w.verdict
}

// kindsOf returns the kinds of a message that a process sends. A commit has the kinds of its events, too.
func kindsOf(m *wire.Message) []schemas.EventType {
	var subjects schemas.Subjects
	if session, err := subjects.ParseEvent(m.Subject); err == nil {
		return append(eventTypesOf(session, m), passCommit)
	}
	if _, _, _, err := subjects.ParseTool(m.Subject); err == nil {
		return []schemas.EventType{passDispatch}
	}
	if _, update, err := subjects.ParseLive(m.Subject); err == nil && update {
		return []schemas.EventType{passUpdate}
	}
	if _, kind, err := subjects.ParseCommand(m.Subject); err == nil && kind == schemas.CommandToolResult {
		return []schemas.EventType{passResult}
	}
	if strings.HasPrefix(m.Subject, "$JS.ACK.") && (len(m.Data) == 0 || string(m.Data) == "+ACK") {
		if strings.Contains(m.Subject, "."+schemas.StreamTools+".") {
			return []schemas.EventType{passSettle}
		}
		return []schemas.EventType{passAck}
	}
	return nil
}

func eventTypesOf(session string, m *wire.Message) (types []schemas.EventType) {
	header, err := nats.DecodeHeadersMsg(m.Header)
	if err != nil {
		return nil
	}
	events, _ := schemas.SplitLog(session, header, m.Data)
	for _, e := range events {
		types = append(types, schemas.EventType(e.Name))
	}
	return types
}
