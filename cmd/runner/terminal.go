package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/schemas"
)

// terminal shows a run to a person: streamed text, tool calls with arguments, progress and results, totals at the end.
// What models and tools say is shown without control characters, so that it cannot drive the terminal.
type terminal struct {
	out   io.Writer
	color bool

	message  string         // id of the reply being streamed
	streamed map[int]int    // characters of each block already shown
	block    int            // being shown
	line     bool           // whether the cursor is inside a line
	shown    map[string]int // lines of progress shown, per call
}

func newTerminal(out io.Writer) *terminal {
	return &terminal{out: out, color: isTerminal(out) && os.Getenv("NO_COLOR") == "", shown: make(map[string]int)}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

const (
	dim   = "2"
	bold  = "1"
	red   = "31"
	green = "32"
	cyan  = "36"

	resultLines = 20 // of a tool's output that are shown
)

func (t *terminal) raw(*nats.Msg) (bool, error) { return false, nil }

func (t *terminal) update(u schemas.Update) error {
	switch d := u.Data.(type) {
	case *schemas.MessageUpdate:
		for _, e := range d.AssistantMessageEvents {
			t.delta(d.MessageID, e)
		}
	case *schemas.ToolExecutionUpdate:
		t.progress(d)
	}
	return nil
}

func (t *terminal) delta(message string, e schemas.StreamEvent) {
	if message != t.message {
		return // of a reply that is complete
	}
	switch e.Type {
	case schemas.StreamTextDelta:
		t.stream(e.ContentIndex, e.Delta, "")
	case schemas.StreamThinkingDelta:
		t.stream(e.ContentIndex, e.Delta, dim)
	}
}

func (t *terminal) stream(block int, text, style string) {
	if block != t.block {
		t.newline()
		t.block = block
	}
	t.streamed[block] += len(text)
	t.print(style, text)
}

func (t *terminal) progress(d *schemas.ToolExecutionUpdate) {
	lines := textLines(d.PartialResult)
	from := t.shown[string(d.Call)]
	if from >= len(lines) || from >= resultLines {
		return
	}
	for _, line := range lines[from:min(len(lines), resultLines)] {
		t.say(dim, "  | "+line)
	}
	t.shown[string(d.Call)] = min(len(lines), resultLines)
}

func (t *terminal) event(e schemas.Event) error {
	switch d := e.Data.(type) {
	case *schemas.MessageStart:
		if d.Role == schemas.RoleAssistant {
			t.message, t.streamed, t.block = d.MessageID, make(map[int]int), 0
		}
	case *schemas.MessageEnd:
		t.messageEnd(d)
	case *schemas.ToolExecutionStart:
		t.say(cyan, fmt.Sprintf("> %s %s", d.ToolName, compact(d.Args)))
	case *schemas.ToolExecutionEnd:
		t.result(d)
	case *schemas.RunResumed:
		t.say(dim, "(resumed "+d.Reason+")")
	case *schemas.AutoRetryStart:
		t.say(dim, fmt.Sprintf("(attempt %d of %d in %s)", d.Attempt, d.MaxAttempts, time.Duration(d.DelayMs)*time.Millisecond))
	case *schemas.ModelFallback:
		t.say(dim, fmt.Sprintf("(going on with %s)", d.To))
	case *schemas.BudgetWarning:
		t.say(dim, fmt.Sprintf("(the budget of this %s is nearly used up)", d.Scope))
	case *schemas.CommandRejected:
		t.say(red, fmt.Sprintf("rejected: %s (%s)", d.Reason, d.Code))
	case *schemas.ErrorEvent:
		t.say(red, "error: "+d.Message)
	case *schemas.AgentEnd:
		t.totals(e, d)
	}
	return nil
}

// messageEnd shows what of a message has not been streamed: all of it for those that are not replies.
func (t *terminal) messageEnd(d *schemas.MessageEnd) {
	switch m := d.Message.Message.(type) {
	case *schemas.UserMessage:
		t.say(bold, "you: "+m.Content.JoinText())
	case *schemas.AssistantMessage:
		if d.MessageID != t.message {
			return
		}
		for i, c := range m.Content {
			t.rest(i, c)
		}
		t.newline()
		if m.ErrorMessage != "" {
			t.say(red, string(m.StopReason)+": "+m.ErrorMessage)
		}
		t.message = ""
	}
}

func (t *terminal) rest(block int, c schemas.Content) {
	switch c := c.(type) {
	case schemas.Text:
		t.stream(block, c.Text[min(t.streamed[block], len(c.Text)):], "")
	case schemas.Thinking:
		t.stream(block, c.Thinking[min(t.streamed[block], len(c.Thinking)):], dim)
	}
}

func (t *terminal) result(d *schemas.ToolExecutionEnd) {
	style, mark := green, "ok"
	if d.IsError {
		style, mark = red, "failed"
	}
	lines := textLines(d.Result)
	for i, line := range lines[min(t.shown[string(d.Call)], len(lines)):] {
		if i == resultLines {
			t.say(dim, fmt.Sprintf("  | ... %d more lines", len(lines)-i))
			break
		}
		t.say("", "  | "+line)
	}
	t.say(style, fmt.Sprintf("  %s in %s", mark, time.Duration(d.DurationMs)*time.Millisecond))
	delete(t.shown, string(d.Call))
}

// textLines are the lines of a result's text; no text has none.
func textLines(r schemas.ToolResult) []string {
	text := strings.TrimRight(r.Content.JoinText(), "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

func (t *terminal) totals(e schemas.Event, d *schemas.AgentEnd) {
	style := green
	if !d.TerminationReason.Normal() {
		style = red
	}
	t.say(style, fmt.Sprintf("session %s: %s after %d turns, %d tokens, $%.4f, %s", e.Session, d.TerminationReason, d.Turns,
		d.Usage.TotalTokens, d.Usage.Cost.Total, time.Duration(d.DurationMs)*time.Millisecond))
}

func (t *terminal) say(style, text string) {
	t.newline()
	t.print(style, text)
	t.newline()
}

func (t *terminal) newline() {
	if t.line {
		fmt.Fprintln(t.out)
		t.line = false
	}
}

func (t *terminal) print(style, text string) {
	text = printable(text)
	if text == "" {
		return
	}
	t.line = !strings.HasSuffix(text, "\n")
	if t.color && style != "" {
		text = "\x1b[" + style + "m" + text + "\x1b[0m"
	}
	fmt.Fprint(t.out, text)
}

// printable replaces control characters, but for line ends and tabs.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return '\uFFFD'
		}
		return r
	}, s)
}

// compact shortens arguments to a line.
func compact(args []byte) string {
	const limit = 200
	args = bytes.TrimSpace(args)
	if len(args) <= limit {
		return string(args)
	}
	return strings.ToValidUTF8(string(args[:limit]), "") + "..."
}
