package driver

import (
	"context"
	"errors"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// Tracer begins spans. The W3C traceparent of a span travels in the events, so that a trace goes on in other processes.
// A Tracer may be called concurrently.
type Tracer interface {
	Start(ctx context.Context, s SpanStart) Span
}

// Span is something that takes time. End is called once.
type Span interface {
	TraceParent() string
	End(e SpanEnd)
}

// SpanKind is what takes the time of a span.
type SpanKind string

// The kinds of spans. A run has turns; a turn has model calls and tool calls.
const (
	SpanRun       SpanKind = "run"
	SpanTurn      SpanKind = "turn"
	SpanModelCall SpanKind = "model call"
	SpanToolCall  SpanKind = "tool call"
)

// SpanStart says what begins. Parent is a W3C traceparent or empty. Profile is the one that the session follows, if
// any. Model is of a model call; Tool and ToolCallID are of a tool call, and what the model has said.
type SpanStart struct {
	Kind             SpanKind
	Parent           string
	Session, Profile string
	Model            schemas.ModelRef
	Tool, ToolCallID string
}

// SpanEnd says how it ended. Failure is a code, never a text that may quote content; empty is success. Reply is of a
// model call, nil where there is none, and not to be changed. Usage is that of a run.
type SpanEnd struct {
	Failure string
	Reply   *schemas.AssistantMessage
	Usage   schemas.Usage
}

// The failures of spans besides failure codes of models and termination reasons of runs.
const (
	spanError   = "error"   // an error without a code
	spanAborted = "aborted" // the run was to end
	spanLeft    = "left"    // another process may go on with it
)

type noTracer struct{}

func (noTracer) Start(_ context.Context, s SpanStart) Span { return noSpan(s.Parent) }

// noSpan passes its parent on.
type noSpan string

func (s noSpan) TraceParent() string { return string(s) }
func (noSpan) End(SpanEnd)           {}

// spans are those a driver has open; the driver's lock guards them.
type spans struct {
	run, turn Span
}

// startRunSpan begins the span of a run. The caller holds the lock.
func (d *Driver) startRunSpan(ctx context.Context, inputs []loop.Input, profile string) {
	start := SpanStart{Kind: SpanRun, Session: d.session, Profile: profile}
	if len(inputs) > 0 {
		start.Parent = inputs[0].TraceParent
	}
	d.spans.run = d.o.Tracer.Start(ctx, start)
}

// endRun ends what is open. end is nil if the run goes on elsewhere.
func (s *spans) endRun(end *schemas.AgentEnd) {
	how := SpanEnd{Failure: spanLeft}
	if end != nil {
		how = SpanEnd{Usage: end.Usage}
		if !end.TerminationReason.Normal() {
			how.Failure = string(end.TerminationReason)
		}
	}
	if s.turn != nil {
		s.turn.End(SpanEnd{Failure: how.Failure})
	}
	if s.run != nil {
		s.run.End(how)
	}
	s.run, s.turn = nil, nil
}

func (d *Driver) startModelSpan(ctx context.Context, m schemas.ModelRef) Span {
	start := SpanStart{Kind: SpanModelCall, Session: d.session, Model: m}
	d.View(func(s *loop.State) { start.Parent, start.Profile = d.traceParent(), s.Config.Profile })
	return d.o.Tracer.Start(ctx, start)
}

// spanEnd says how a model call has ended that returned err.
func (c *modelCall) spanEnd(err error) SpanEnd {
	end := SpanEnd{Reply: c.final}
	var lost *LostError
	switch {
	case c.ctx.Err() != nil || errors.As(err, &lost):
		end.Failure = spanLeft
	case c.final != nil && c.final.StopReason == schemas.StopAborted:
		end.Failure = spanAborted
	case c.failure != "":
		end.Failure = string(c.failure)
	case err != nil || c.final != nil && c.final.StopReason == schemas.StopError:
		end.Failure = spanError
	}
	return end
}

// startToolSpan begins the span of a call that is about to be dispatched.
func (d *Driver) startToolSpan(ctx context.Context, req schemas.ToolRequest) Span {
	start := SpanStart{Kind: SpanToolCall, Parent: req.TraceParent, Session: d.session, Tool: req.ToolName,
		ToolCallID: req.ToolCallID}
	d.View(func(s *loop.State) { start.Profile = s.Config.Profile })
	return d.o.Tracer.Start(ctx, start)
}

// end ends the span of a call, if it has one.
func (f *flight) end(failure string) {
	if f != nil && f.span != nil {
		f.span.End(SpanEnd{Failure: failure})
		f.span = nil
	}
}

func (s *spans) parent() string {
	switch {
	case s.turn != nil:
		return s.turn.TraceParent()
	case s.run != nil:
		return s.run.TraceParent()
	}
	return ""
}

// turnEvent begins and ends the turn's span with its events. The caller holds the lock.
func (d *Driver) turnEvent(ctx context.Context, data schemas.EventData) {
	switch data.(type) {
	case *schemas.TurnStart:
		d.spans.turn = d.o.Tracer.Start(ctx, SpanStart{Kind: SpanTurn, Parent: d.traceParent(), Session: d.session,
			Profile: d.state.Config.Profile})
	case *schemas.TurnEnd:
		if d.spans.turn != nil {
			d.spans.turn.End(SpanEnd{})
			d.spans.turn = nil
		}
	}
}

// traceParent is the context of what happens now; after a change of process that of the run, from the log. The caller
// holds the lock.
func (d *Driver) traceParent() string {
	if p := d.spans.parent(); p != "" {
		return p
	}
	if r := d.state.Run; r != nil {
		return r.TraceParent
	}
	return ""
}
