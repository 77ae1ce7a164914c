package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/schemas"
)

// resultLines is how many lines of a call's output are shown at a time.
const resultLines = 20

// partialLines is how many lines of a call's partial results are shown: a tool that replaces its output ten times a
// second would fill the terminal.
const partialLines = 200

// call is a tool call that is being executed.
type call struct {
	name  string
	since time.Time // when it was dispatched
	shown []string  // the first lines of its output, as they were shown last
	spent int       // lines shown so far
}

func (t *Terminal) begin(e schemas.Event, d *schemas.ToolExecutionStart) {
	key := schemas.NewCallKey(e.Seq)
	t.calls[key] = &call{name: d.ToolName, since: e.Time}
	t.speaking = key
	t.say(cyan, cli.OneLine(fmt.Sprintf("> %s %s", d.ToolName, Compact(d.Args))))
}

// of says which call's output comes, where that is not the call that was shown last.
func (t *Terminal) of(key schemas.CallKey, name string) {
	if t.speaking == key {
		return
	}
	t.speaking = key
	t.say(cyan, cli.OneLine(fmt.Sprintf("  %s %s:", name, key)))
}

// progress shows what a partial result adds to the one before, and all of one that takes the other's place.
func (t *Terminal) progress(d *schemas.ToolExecutionUpdate) {
	if c := t.calls[d.Call]; c != nil && !t.fold && c.spent < partialLines { // or it has ended
		t.output(d.Call, c, textLines(d.PartialResult), dim)
	}
}

// output shows the first lines of a result, but for those that were shown already. A result that does not begin with
// what was shown has replaced it, and is shown from its beginning.
func (t *Terminal) output(key schemas.CallKey, c *call, lines []string, style string) {
	lines = lines[:min(len(lines), resultLines)]
	n := len(c.shown)
	replaced := n > len(lines) || !slices.Equal(c.shown, lines[:n])
	if replaced && grew(c.shown, lines) {
		n, replaced = n-1, false // its last line was not complete
	}
	if replaced {
		n = 0
	}
	if n == len(lines) {
		return
	}
	t.of(key, c.name)
	if replaced {
		t.say(dim, "  (in place of the above)")
	}
	for _, line := range lines[n:] {
		t.say(style, "  | "+line)
	}
	c.shown, c.spent = lines, c.spent+len(lines)-n
}

// grew reports whether lines are those before, the last of which goes on.
func grew(before, lines []string) bool {
	n := len(before)
	return n > 0 && n <= len(lines) && slices.Equal(before[:n-1], lines[:n-1]) &&
		before[n-1] != lines[n-1] && strings.HasPrefix(lines[n-1], before[n-1])
}

// end shows what of the final result was not shown, and how the call ended: how long the tool took, and how long it was
// before that where that is more than a moment.
func (t *Terminal) end(at time.Time, d *schemas.ToolExecutionEnd) {
	c := t.calls[d.Call]
	if c == nil { // it began before the view did
		c = &call{name: d.ToolName}
	}
	lines := textLines(d.Result)
	if !t.fold {
		t.output(d.Call, c, lines, "")
	}
	if n := len(lines); n > resultLines && !t.fold {
		t.of(d.Call, c.name)
		t.say(dim, fmt.Sprintf("  | ... %d more lines", n-resultLines))
	}
	style, mark := green, "ok"
	if d.IsError {
		style, mark = red, "failed"
	}
	t.of(d.Call, c.name)
	if t.fold {
		mark = fmt.Sprintf("%s: %d lines (%s)", mark, len(lines), d.Call)
	}
	took := time.Duration(d.DurationMs) * time.Millisecond
	waited := ""
	if before := at.Sub(c.since) - took; !c.since.IsZero() && before >= time.Second && d.Worker != "" {
		waited = fmt.Sprintf(", after %s of waiting", before.Round(100*time.Millisecond))
	}
	t.say(style, fmt.Sprintf("  %s in %s%s", mark, took, waited))
	delete(t.calls, d.Call)
}

// Fold has calls shown without their output.
func (t *Terminal) Fold(fold bool) { t.fold = fold }

// textLines are the lines of a result's text; no text has none.
func textLines(r schemas.ToolResult) []string {
	text := strings.TrimRight(r.Content.JoinText(), "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}
