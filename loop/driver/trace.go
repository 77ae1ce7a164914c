package driver

import (
	"cmp"
	"context"
	"errors"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// Tracer starts spans. Events carry the W3C traceparent of their span, so that other processes continue the trace. A
// Tracer may be called concurrently.
type Tracer interface {
	Start(ctx context.Context, s SpanStart) Span
}

// Span is a started span. End is called once.
type Span interface {
	TraceParent() string
	End(e SpanEnd)
}

// SpanKind is the kind of a span.
type SpanKind string

// The kinds of spans. A run has turns; a turn has model calls and tool calls.
const (
	SpanRun       SpanKind = "run"
	SpanTurn      SpanKind = "turn"
	SpanModelCall SpanKind = "model call"
	SpanToolCall  SpanKind = "tool call"
)

// SpanStart describes a span that starts. Parent is a W3C traceparent or empty. Profile is the session's profile, if
// any. Model is set for a model call; Tool and ToolCallID, both as the model wrote them, are set for a tool call.
type SpanStart struct {
	Kind             SpanKind
	Parent           string
	Session, Profile string
	Model            schemas.ModelRef
	Tool, ToolCallID string
}

// SpanEnd describes how a span ended. Failure is a code, never a text that may quote content; empty means success.
// Reply is set for a model call that has one, and must not be changed. Usage is set for a run.
type SpanEnd struct {
	Failure string
	Reply   *schemas.AssistantMessage
	Usage   schemas.Usage
}

// Values of SpanEnd.Failure besides the failure codes of models and the termination reasons of runs.
const (
	spanError   = "error"   // an error without a code
	spanAborted = "aborted" // the run was aborted
	spanLeft    = "left"    // the driver stopped; another process may continue
)

type noTracer struct{}

func (noTracer) Start(_ context.Context, s SpanStart) Span { return noSpan(s.Parent) }

// noSpan is a span that only passes on its parent.
type noSpan string

func (s noSpan) TraceParent() string { return string(s) }
func (noSpan) End(SpanEnd)           {}

// spans are the open spans of a driver. The driver's lock guards them.
type spans struct {
	run, turn Span
}

var noSpans = spans{run: noSpan(""), turn: noSpan("")}

// startRunSpan starts the span of a run. The caller holds the lock.
func (d *Driver) startRunSpan(ctx context.Context, inputs []loop.Input, profile string) {
	start := SpanStart{Kind: SpanRun, Session: d.session, Profile: profile}
	if len(inputs) > 0 {
		start.Parent = inputs[0].TraceParent
	}
	d.spans.run = d.o.Tracer.Start(ctx, start)
}

// endRun ends the open spans. end is nil if another process may continue the run.
func (s *spans) endRun(end *schemas.AgentEnd) {
	how := SpanEnd{Failure: spanLeft}
	if end != nil {
		how = SpanEnd{Usage: end.Usage}
		if !end.TerminationReason.Normal() {
			how.Failure = string(end.TerminationReason)
		}
	}
	s.turn.End(SpanEnd{Failure: how.Failure})
	s.run.End(how)
	*s = noSpans
}

func (d *Driver) startModelSpan(ctx context.Context, m schemas.ModelRef) Span {
	start := SpanStart{Kind: SpanModelCall, Session: d.session, Model: m}
	d.View(func(s *loop.State) { start.Parent, start.Profile = d.traceParent(), s.Config.Profile })
	return d.o.Tracer.Start(ctx, start)
}

// spanEnd returns how a model call that returned err ended.
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

// startToolSpan starts the span of a call that is about to be dispatched.
func (d *Driver) startToolSpan(ctx context.Context, req schemas.ToolRequest) Span {
	start := SpanStart{Kind: SpanToolCall, Parent: req.TraceParent, Session: d.session, Tool: req.ToolName,
		ToolCallID: req.ToolCallID}
	d.View(func(s *loop.State) { start.Profile = s.Config.Profile })
	return d.o.Tracer.Start(ctx, start)
}

// end ends the span of a call, if the call was dispatched. The caller then forgets the call.
func (f *begunCall) end(failure string) {
	if f != nil && f.span != nil {
		f.span.End(SpanEnd{Failure: failure})
	}
}

// turnEvent starts and ends the span of a turn with its events. The caller holds the lock.
func (d *Driver) turnEvent(ctx context.Context, data schemas.EventData) {
	switch data.(type) {
	case *schemas.TurnStart:
		d.spans.turn = d.o.Tracer.Start(ctx, SpanStart{Kind: SpanTurn, Parent: d.traceParent(), Session: d.session,
			Profile: d.state.Config.Profile})
	case *schemas.TurnEnd:
		d.spans.turn.End(SpanEnd{})
		d.spans.turn = noSpans.turn
	}
}

// traceParent returns the traceparent for what happens now: that of the open span, or, in a process that has not
// started the run, that of the run in the log. The caller holds the lock.
func (d *Driver) traceParent() string {
	p := cmp.Or(d.spans.turn.TraceParent(), d.spans.run.TraceParent())
	if p == "" && d.state.Run != nil {
		p = d.state.Run.TraceParent
	}
	return p
}
