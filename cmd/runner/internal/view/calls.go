package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/schemas"
)

// resultLines limits the lines printed of a call's output.
const resultLines = 20

// partialLines limits the lines printed of a call's partial results: a tool that replaces its output ten times per
// second would fill the terminal.
const partialLines = 200

// call is a tool call in progress.
type call struct {
	name  string
	since time.Time // when it was dispatched
	shown []string  // first lines of the output, as printed last
	spent int       // lines printed so far
}

func (t *Terminal) begin(e schemas.Event, d *schemas.ToolExecutionStart) {
	key := schemas.NewCallKey(e.Seq)
	t.calls[key] = &call{name: d.ToolName, since: e.Time}
	t.speaking = key
	t.say(cyan, cli.OneLine(fmt.Sprintf("> %s %s", d.ToolName, Compact(d.Args))))
}

// replaced prints the arguments that were put in place of the printed ones, before the call is executed.
func (t *Terminal) replaced(r *schemas.ReplacedArguments) {
	if c := t.calls[r.Call]; c != nil {
		t.of(r.Call, c.name)
	}
	by := ""
	if r.By != "" {
		by = " by " + r.By
	}
	t.say(cyan, cli.OneLine(fmt.Sprintf("  (arguments replaced%s) %s", by, Compact(r.Arguments))))
}

// of prints which call the following output belongs to, unless that was printed last.
func (t *Terminal) of(key schemas.CallKey, name string) {
	if t.speaking == key {
		return
	}
	t.speaking = key
	t.say(cyan, cli.OneLine(fmt.Sprintf("  %s %s:", name, key)))
}

// progress prints what a partial result adds to the previous one, or all of it if it replaces that.
func (t *Terminal) progress(d *schemas.ToolExecutionUpdate) {
	if c := t.calls[d.Call]; c != nil && !t.fold && c.spent < partialLines { // nil if it has ended
		t.output(d.Call, c, textLines(d.PartialResult), dim)
	}
}

// output prints the first lines of a result that were not printed before. A result that does not begin with what was
// printed has replaced it, and is printed from its beginning.
func (t *Terminal) output(key schemas.CallKey, c *call, lines []string, style string) {
	lines = lines[:min(len(lines), resultLines)]
	n := len(c.shown)
	replaced := n > len(lines) || !slices.Equal(c.shown, lines[:n])
	if replaced && grew(c.shown, lines) {
		n, replaced = n-1, false // the last line printed was incomplete
	}
	if replaced {
		n = 0
	}
	if n == len(lines) {
		return
	}
	t.of(key, c.name)
	if replaced {
		t.say(dim, "  (replaces the output above)")
	}
	for _, line := range lines[n:] {
		t.say(style, "  | "+line)
	}
	c.shown, c.spent = lines, c.spent+len(lines)-n
}

// grew reports whether lines extend before, whose last line may have been incomplete.
func grew(before, lines []string) bool {
	n := len(before)
	return n > 0 && n <= len(lines) && slices.Equal(before[:n-1], lines[:n-1]) &&
		before[n-1] != lines[n-1] && strings.HasPrefix(lines[n-1], before[n-1])
}

// end prints the rest of the final result, whether the call succeeded, how long the tool took, and how long the call
// waited if that was a second or more.
func (t *Terminal) end(at time.Time, d *schemas.ToolExecutionEnd) {
	c := t.calls[d.Call]
	if c == nil { // it started before the view
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
	took := schemas.Milliseconds(d.DurationMs)
	waited := ""
	if before := at.Sub(c.since) - took; !c.since.IsZero() && before >= time.Second && d.Worker != "" {
		waited = fmt.Sprintf(", after waiting %s", before.Round(100*time.Millisecond))
	}
	t.say(style, fmt.Sprintf("  %s in %s%s", mark, took, waited))
	delete(t.calls, d.Call)
}

// Fold makes the terminal print calls without their output.
func (t *Terminal) Fold(fold bool) { t.fold = fold }

// textLines returns the lines of a result's text; none for an empty text.
func textLines(r schemas.ToolResult) []string {
	text := strings.TrimRight(r.Content.JoinText(), "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}
