// Package view prints what happens in a session, for a person or as CloudEvents.
package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/cmd/internal/waiting"
	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/schemas"
)

// Shower prints events and updates in the order of its calls. It is not safe for concurrent use.
type Shower interface {
	Event(e schemas.Event) error
	Update(u schemas.Update) error
}

// Terminal prints a run for a person: streamed text, tool calls with arguments, progress and results, and totals at
// the end. Text from models and tools is escaped so that it cannot control the terminal.
type Terminal struct {
	out   io.Writer
	color bool
	fold  bool // print calls without their output

	message  string                   // id of the reply being streamed
	streamed map[int]*strings.Builder // what was printed of each block
	block    int                      // index of the block being printed
	line     bool                     // the cursor is inside a line
	err      error                    // of the first output that could not be written
	calls    map[schemas.CallKey]*call
	speaking schemas.CallKey // the call whose output was printed last
	waiting  waiting.Calls   // calls that wait for a worker
}

// NewTerminal returns a Terminal that prints to out, with or without colours.
func NewTerminal(out io.Writer, color bool) *Terminal {
	return &Terminal{out: out, color: color, streamed: map[int]*strings.Builder{}, calls: map[schemas.CallKey]*call{}}
}

const (
	dim   = "2"
	bold  = "1"
	red   = "31"
	green = "32"
	cyan  = "36"
)

// Update prints a piece of a reply, or the output of a tool so far. Its error, like that of Event, is the first one of
// the output.
func (t *Terminal) Update(u schemas.Update) error {
	switch d := u.Data.(type) {
	case *schemas.MessageUpdate:
		for _, e := range d.AssistantMessageEvents {
			t.delta(d.MessageID, e)
		}
	case *schemas.ToolExecutionUpdate:
		t.aside(t.waiting.Update(u))
		t.progress(d)
	}
	return t.err
}

// Event prints what an event adds.
func (t *Terminal) Event(e schemas.Event) error {
	t.waiting.Event(e, time.Now())
	if r := schemas.ReplacesArguments(e.Data); r != nil {
		t.replaced(r)
	}
	switch d := e.Data.(type) {
	case *schemas.MessageStart:
		if d.Role == schemas.RoleAssistant {
			t.message, t.streamed, t.block = d.MessageID, make(map[int]*strings.Builder), 0
		}
	case *schemas.MessageEnd:
		t.messageEnd(d)
	case *schemas.ToolExecutionStart:
		t.begin(e, d)
	case *schemas.HookDecision:
		if d.Handled {
			t.say(dim, "(no run gets this input: handled by "+d.By+")")
		}
	case *schemas.ApprovalResolved:
		if c := t.calls[d.Call]; c != nil {
			c.since = e.Time
		}
	case *schemas.ToolExecutionEnd:
		t.end(e.Time, d)
	case *schemas.SubagentStart:
		t.of(d.Call, schemas.ToolAgent)
		t.say(dim, cli.OneLine(strings.TrimRight("  (working in session "+d.Session+") "+d.Name, " ")))
	case *schemas.RunResumed:
		t.say(dim, "(resumed "+d.Reason+")")
	case *schemas.AutoRetryStart:
		t.say(dim, fmt.Sprintf("(attempt %d of %d in %s)", d.Attempt, d.MaxAttempts,
			schemas.Milliseconds(d.DelayMs)))
	case *schemas.ModelFallback:
		t.say(dim, fmt.Sprintf("(continuing with model %s)", d.To))
	case *schemas.BudgetWarning:
		t.say(dim, fmt.Sprintf("(the budget of this %s is nearly used up)", d.Scope))
	case *schemas.CommandRejected:
		t.say(red, fmt.Sprintf("rejected: %s (%s)", d.Reason, d.Code))
	case *schemas.ErrorEvent:
		t.say(red, "error: "+d.Message+keyHint(d.Message))
	case *schemas.AgentEnd:
		t.totals(e, d)
	}
	return t.err
}

func (t *Terminal) totals(e schemas.Event, d *schemas.AgentEnd) {
	style := green
	if !d.TerminationReason.Normal() {
		style = red
	}
	t.say(style, fmt.Sprintf("session %s: %s after %s, %d tokens, $%.4f, %s", e.Session, d.TerminationReason,
		turns(d.Turns), d.Usage.TotalTokens, d.Usage.Cost.Total, schemas.Milliseconds(d.DurationMs)))
}

func turns(n int) string {
	if n == 1 {
		return "1 turn"
	}
	return fmt.Sprintf("%d turns", n)
}

// Look prints which calls are late. Call it regularly, for instance from [waiting.Every].
func (t *Terminal) Look(now time.Time) {
	for _, line := range t.waiting.Late(now) {
		t.aside(line)
	}
}

func (t *Terminal) aside(line string) {
	if line != "" {
		t.say(dim, "  "+cli.OneLine(line))
	}
}

// Say prints a line of the program itself. Further lines of the text are marked as written by others.
func (t *Terminal) Say(text string) { t.say(dim, text) }

// say prints a text and marks all lines but the first: what others write must not look like a line of the view.
func (t *Terminal) say(style, text string) {
	t.newline()
	t.print(style, strings.ReplaceAll(strings.TrimRight(text, "\r\n"), "\n", "\n  | "))
	t.newline()
}

func (t *Terminal) newline() {
	if t.line {
		t.write("\n")
		t.line = false
	}
}

func (t *Terminal) print(style, text string) {
	text = cli.Visible(text)
	if text == "" {
		return
	}
	t.line = !strings.HasSuffix(text, "\n")
	if t.color && style != "" {
		text = "\x1b[" + style + "m" + text + "\x1b[0m"
	}
	t.write(text)
}

func (t *Terminal) write(text string) {
	if _, err := io.WriteString(t.out, text); t.err == nil {
		t.err = err
	}
}

// keyHint returns which variable to set if an API key is missing, for an error text that the reference implementation
// defines.
func keyHint(message string) string {
	_, provider, ok := strings.Cut(message, "No API key for provider: ")
	if variables := providers.KeyVariables(provider); ok && len(variables) > 0 {
		return " (set " + variables[0] + " where the runner is started)"
	}
	return ""
}

// Compact shortens arguments to one line.
func Compact(args []byte) string {
	const limit = 200
	args = bytes.TrimSpace(args)
	if len(args) <= limit {
		return string(args)
	}
	return strings.ToValidUTF8(string(args[:limit]), "") + "..."
}

// mostArgs limits how much of a call's arguments is printed to the person who approves it.
const mostArgs = 64 << 10

// Whole returns arguments on one line for the person who approves them: all of them, because what is not shown could
// be what matters. If they are too long, it says how much is missing.
func Whole(args []byte) string {
	var b bytes.Buffer
	if json.Compact(&b, args) == nil {
		args = b.Bytes()
	}
	if len(args) <= mostArgs {
		return string(args)
	}
	return fmt.Sprintf("%s... (%d BYTES MORE ARE NOT SHOWN)", strings.ToValidUTF8(string(args[:mostArgs]), ""),
		len(args)-mostArgs)
}
