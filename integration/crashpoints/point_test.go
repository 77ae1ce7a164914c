package crashpoints_test

import (
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/integration/internal/wire"
	"github.com/loopbus/loopbus/schemas"
)

// A pointKind is the kind of a point.
type pointKind string

const (
	pointAppend   pointKind = "append"
	pointDispatch pointKind = "dispatch"
	pointAck      pointKind = "ack"
	pointCancel   pointKind = "cancel"
	pointTimer    pointKind = "timer"  // a timer is set or deleted
	pointFamily   pointKind = "family" // a sub-agent is prompted or aborted, or reports its result
	pointModel    pointKind = "model"  // the call of the model, and each event of its stream
	pointTool     pointKind = "tool"   // a worker starts a call
	pointResult   pointKind = "result" // a worker sends the result of a call
	pointSettle   pointKind = "settle" // a worker acknowledges a call
)

// point is the nth of its kind that a process passes, from 1. Commits are counted by their events, and the point is the
// commit that has the nth event: which events share a commit differs from run to run.
type point struct {
	kind    pointKind
	n       int
	label   string // for the test's name
	events  int    // of a commit
	session string // of the trial or of one of its sub-agents
}

func (p point) String() string {
	if p.label == "" {
		return fmt.Sprintf("%s-%d", p.kind, p.n)
	}
	return fmt.Sprintf("%s-%d-%s", p.kind, p.n, p.label)
}

// A mode is the kind of a fault.
type mode string

const (
	killBefore mode = "killed before"
	killAfter  mode = "killed after"
	cutBefore  mode = "cut before"
	cutAfter   mode = "cut after"
	frozen     mode = "frozen"
)

// fault is one fault. The zero value is no fault.
type fault struct {
	at   point
	mode mode
}

func (f fault) String() string { return fmt.Sprintf("%s %s", f.at, f.mode) }

func (f fault) after() bool { return f.mode == killAfter || f.mode == cutAfter }

// verdict returns what the gateway does with the message of the point.
func (f fault) verdict() wire.Verdict {
	switch f.mode {
	case killBefore, killAfter:
		return wire.Kill
	case cutBefore, cutAfter:
		return wire.Cut
	case frozen:
		return wire.Freeze
	}
	return wire.Pass
}

// faultsAt returns the faults worth trying at a point. At a point without a message the process can only be stopped. An
// acknowledgement that is lost with the connection has the same effect as one that was never sent.
func faultsAt(p point) (faults []fault) {
	modes := []mode{killBefore, killAfter}
	switch p.kind {
	case pointAppend, pointDispatch, pointResult, pointFamily:
		modes = append(modes, cutBefore, cutAfter, frozen)
	case pointAck, pointSettle:
		modes = append(modes, cutBefore, frozen)
	case pointModel, pointTool:
		modes = []mode{killBefore, frozen}
	}
	for _, m := range modes {
		faults = append(faults, fault{p, m})
	}
	return faults
}

// subjects builds and parses the subjects of these tests.
var subjects schemas.Subjects

// pointOf returns the point that a message of a runner or a worker is, and its session. delivered returns the delivery
// with a reply subject.
func pointOf(m *wire.Message, session string, delivered func(reply string) (delivery, bool)) (point, bool) {
	p, of, ok := pointAt(m, session, delivered)
	p.session = of
	return p, ok && (of == session || isChild(of, session))
}

func pointAt(m *wire.Message, session string, delivered func(reply string) (delivery, bool)) (
	p point, of string, ok bool,
) {
	if d, ok := delivered(m.Subject); ok {
		if len(m.Data) > 0 && string(m.Data) != "+ACK" { // a progress report or a nak
			return point{}, "", false
		}
		if d.call != "" {
			return point{kind: pointSettle, label: d.call}, d.session, true
		}
		return point{kind: pointAck, label: string(d.command.Data.CommandKind())}, d.session, true
	}
	if s, err := subjects.ParseEvent(m.Subject); err == nil {
		types := eventTypes(s, m)
		return point{kind: pointAppend, label: strings.Join(types, "+"), events: len(types)}, s, true
	}
	if queue, s, _, err := subjects.ParseTool(m.Subject); err == nil {
		return point{kind: pointDispatch, label: queue.Tool}, s, true
	}
	if s, _, err := subjects.ParseCancel(m.Subject); err == nil {
		return point{kind: pointCancel}, s, true
	}
	if s, kind, err := subjects.ParseCommand(m.Subject); err == nil {
		switch kind {
		case schemas.CommandSubagentPrompt, schemas.CommandSubagentAbort, schemas.CommandSubagentResult:
			return point{kind: pointFamily, label: string(kind)}, s, true
		}
		return point{kind: pointResult}, s, kind == schemas.CommandToolResult
	}
	timers := subjects.Schedule(session, "")
	if strings.HasPrefix(m.Subject, timers) {
		return point{kind: pointTimer, label: bus.TimerName(m.Subject)}, session, true
	}
	if strings.HasSuffix(m.Subject, ".STREAM.PURGE."+schemas.StreamTimers) {
		return point{kind: pointTimer, label: "cancel"}, session, strings.Contains(string(m.Data), timers)
	}
	return point{}, "", false
}

// eventTypes returns the types of a commit's events.
func eventTypes(session string, m *wire.Message) (types []string) {
	header, err := nats.DecodeHeadersMsg(m.Header)
	if err != nil {
		return []string{"unknown"}
	}
	events, err := schemas.SplitLog(session, header, m.Data)
	if err != nil {
		return []string{"unknown"}
	}
	for _, e := range events {
		types = append(types, e.Name)
	}
	return types
}
