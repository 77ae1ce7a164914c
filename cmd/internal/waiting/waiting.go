// Package waiting reports to a user which tool calls wait for a worker.
package waiting

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

const (
	// Late is how long a call waits before it is reported: longer than a worker takes to report that it has begun.
	Late = 5 * time.Second
	// Look is the interval of checks for late calls.
	Look = time.Second
	// known is the age up to which a call is tracked. It is shorter than the server keeps updates, because for an
	// older call the update that says that a worker has begun may be lost.
	known = time.Minute
)

// Every calls look at regular intervals until it is stopped. look is not called after stop returns.
func Every(look func(now time.Time)) (stop func()) {
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(Look)
		defer tick.Stop()
		for {
			select {
			case now := <-tick.C:
				look(now)
			case <-over:
				return
			}
		}
	}()
	return func() { close(over); <-ended }
}

// Calls tracks the calls that no worker has begun. The zero value is empty. It is not safe for concurrent use.
type Calls struct {
	open map[schemas.CallKey]*call
}

type call struct {
	tool     string
	seq      uint64
	since    time.Time // zero while the call waits for approval
	reported bool
}

// Event processes an event that was received at now.
func (c *Calls) Event(e schemas.Event, now time.Time) {
	switch d := e.Data.(type) {
	case *schemas.ToolExecutionStart:
		if now.Sub(e.Time) > known {
			return // the update that reports its beginning may have expired
		}
		if c.open == nil {
			c.open = map[schemas.CallKey]*call{}
		}
		c.open[schemas.NewCallKey(e.Seq)] = &call{tool: d.ToolName, seq: e.Seq, since: now}
	case *schemas.ApprovalRequested:
		if w := c.open[d.Call]; w != nil {
			w.since = time.Time{}
		}
	case *schemas.ApprovalResolved:
		if w := c.open[d.Call]; w != nil {
			w.since = now
		}
	case *schemas.SubagentStart: // needs no worker
		delete(c.open, d.Call)
	case *schemas.ToolExecutionEnd:
		delete(c.open, d.Call)
	case *schemas.AgentEnd:
		clear(c.open)
	}
}

// Update processes an update. It returns a line to print if a late call has begun, else "".
func (c *Calls) Update(u schemas.Update) string {
	d, ok := u.Data.(*schemas.ToolExecutionUpdate)
	if !ok {
		return ""
	}
	w := c.open[d.Call]
	delete(c.open, d.Call)
	if w == nil || !w.reported {
		return ""
	}
	return fmt.Sprintf("(a worker has started %s %s)", w.tool, d.Call)
}

// Late returns a line for each call that has become late, once per call.
func (c *Calls) Late(now time.Time) (lines []string) {
	bySeq := func(a, b schemas.CallKey) int { return cmp.Compare(c.open[a].seq, c.open[b].seq) }
	for _, key := range slices.SortedFunc(maps.Keys(c.open), bySeq) {
		w := c.open[key]
		if w.reported || w.since.IsZero() || now.Sub(w.since) < Late {
			continue
		}
		w.reported = true
		lines = append(lines, fmt.Sprintf("(waiting for a worker: none has started %s %s in %s)",
			w.tool, key, Late))
	}
	return lines
}
