package driver

import (
	"context"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

type noTracer struct{}

func (noTracer) Start(_ context.Context, _, parent string, _ map[string]string) Span {
	return noSpan(parent)
}

// noSpan passes its parent on.
type noSpan string

func (s noSpan) TraceParent() string { return string(s) }
func (noSpan) End(error)             {}

// spans are those a driver has open; the driver's lock guards them.
type spans struct {
	run, turn Span
}

func (d *Driver) startRunSpan(ctx context.Context, inputs []loop.Input) {
	parent := ""
	if len(inputs) > 0 {
		parent = inputs[0].TraceParent
	}
	d.spans.run = d.o.Tracer.Start(ctx, "agent run", parent, map[string]string{"session": d.session})
}

func (s *spans) endRun() {
	if s.turn != nil {
		s.turn.End(nil)
	}
	if s.run != nil {
		s.run.End(nil)
	}
	s.run, s.turn = nil, nil
}

func (d *Driver) startModelSpan(ctx context.Context, m schemas.ModelRef) Span {
	var parent string
	d.View(func(*loop.State) { parent = d.traceParent() })
	return d.o.Tracer.Start(ctx, "model call", parent, map[string]string{"model": m.String()})
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
		d.spans.turn = d.o.Tracer.Start(ctx, "agent turn", d.traceParent(), nil)
	case *schemas.TurnEnd:
		if d.spans.turn != nil {
			d.spans.turn.End(nil)
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
