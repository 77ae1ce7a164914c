// Package waiting tells somebody who watches a session which tool calls wait for a worker.
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
	// Late is how long a call waits before something is said of it: longer than a worker works in silence.
	Late = 5 * time.Second
	// Look is how often to look for calls that are late.
	Look = time.Second
	// known is how far back it is known whether a worker has begun a call: well within what is kept of updates.
	known = time.Minute
)

// Every has look look for calls that are late, from time to time, until it is stopped. After that it is not called.
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

// Calls are the calls that no worker has reported to have begun. The zero value has none. It is of one goroutine.
type Calls struct {
	open map[schemas.CallKey]*call
}

type call struct {
	tool  string
	seq   uint64
	since time.Time // zero while somebody's approval is waited for
	told  bool
}

// Event takes in an event that has come at now.
func (c *Calls) Event(e schemas.Event, now time.Time) {
	switch d := e.Data.(type) {
	case *schemas.ToolExecutionStart:
		if now.Sub(e.Time) > known {
			return // of an update that said that it has begun nothing may be left
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
	case *schemas.SubagentStart: // it needs no worker
		delete(c.open, d.Call)
	case *schemas.ToolExecutionEnd:
		delete(c.open, d.Call)
	case *schemas.AgentEnd:
		clear(c.open)
	}
}

// Update takes in an update, and returns what to say of it, if anything: that a call is no longer waited for.
func (c *Calls) Update(u schemas.Update) string {
	d, ok := u.Data.(*schemas.ToolExecutionUpdate)
	if !ok {
		return ""
	}
	w := c.open[d.Call]
	delete(c.open, d.Call)
	if w == nil || !w.told {
		return ""
	}
	return fmt.Sprintf("(a worker has begun %s %s)", w.tool, d.Call)
}

// Late returns what to say of the calls that are late by now, each once.
func (c *Calls) Late(now time.Time) (lines []string) {
	bySeq := func(a, b schemas.CallKey) int { return cmp.Compare(c.open[a].seq, c.open[b].seq) }
	for _, key := range slices.SortedFunc(maps.Keys(c.open), bySeq) {
		w := c.open[key]
		if w.told || w.since.IsZero() || now.Sub(w.since) < Late {
			continue
		}
		w.told = true
		lines = append(lines, fmt.Sprintf("(waiting for a worker: none has reported in %s that it has begun %s %s)",
			Late, w.tool, key))
	}
	return lines
}
