package main

import (
	"bufio"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/schemas"
)

// transcript prints a session's events for people. A message is numbered by the sequence of its message_start, which
// is also the number in its id.
type transcript struct {
	w      *bufio.Writer
	style  style
	events bool // print all other events too
	lines  int  // of a tool's result, 0 for all
	cut    int  // characters of a line of results and arguments, 0 for all

	config  schemas.RunConfig                    // of the newest run
	started map[string]announced                 // messages without message_end, by id
	ended   map[string]*schemas.ToolExecutionEnd // calls whose result is not in the transcript yet, by the model's id
	live    liveReply
	printed bool
}

// announced is a message_start with its sequence.
type announced struct {
	seq   uint64
	start *schemas.MessageStart
}

// event prints an event. It returns only errors of writing.
func (t *transcript) event(e schemas.Event) error {
	switch d := e.Data.(type) {
	case *schemas.AgentStart:
		return t.print(t.runStart(e, d))
	case *schemas.AgentEnd:
		clear(t.started)
		clear(t.ended)
		return t.print(t.runEnd(e, d))
	case *schemas.MessageStart:
		t.started[d.MessageID] = announced{e.Seq, d}
		t.begin(e, d)
		return nil
	case *schemas.MessageEnd:
		block := t.messageEnd(e, d)
		delete(t.started, d.MessageID)
		return t.end(d.MessageID, block)
	case *schemas.ToolExecutionEnd:
		t.ended[d.ToolCallID] = d
	case *schemas.TranscriptReplaced:
		return t.print(t.replaced(e, d))
	}
	if !t.events && schemas.ReplacesArguments(e.Data) == nil { // the reply has only what the model asked for
		return nil
	}
	at := e.Time.UTC().Format("15:04:05.000")
	return t.print(t.style.dim(fmt.Sprintf("#%d %s %s", e.Seq, at, describe(e.Data, t.cut))) + "\n")
}

// print writes whole lines.
func (t *transcript) print(block string) error {
	if block == "" {
		return nil
	}
	if err := t.interrupt(); err != nil {
		return err
	}
	return t.write(block)
}

// write writes text, without the blank line before the first block.
func (t *transcript) write(s string) error {
	if !t.printed {
		s = strings.TrimPrefix(s, "\n")
	}
	t.printed = t.printed || s != ""
	_, err := t.w.WriteString(s)
	return err
}

// heading returns the first line of a block, after a blank line. It is always one line, whatever the texts contain.
func (t *transcript) heading(seq uint64, text, rest string) string {
	line := "\n" + t.style.dim(fmt.Sprintf("#%d", seq)) + " " + t.style.bold(cli.OneLine(text))
	if rest != "" {
		line += "  " + t.style.dim(cli.OneLine(rest))
	}
	return line + "\n"
}

func (t *transcript) runStart(e schemas.Event, d *schemas.AgentStart) string {
	rest := clock(e.Time)
	var b strings.Builder
	if c := d.Config; c != nil {
		t.config = *c
		var tools []string
		for _, tool := range c.Tools {
			tools = append(tools, tool.Name)
		}
		for _, line := range []struct{ name, value string }{
			{"model", c.Model.String()}, {"thinking", string(c.ThinkingLevel)}, {"tools", strings.Join(tools, " ")},
			{"system", c.SystemPrompt},
		} {
			if line.value != "" {
				fmt.Fprintf(&b, "    %s\n", t.style.dim(line.name+": "+oneLine(line.value, t.cut)))
			}
		}
	}
	return t.heading(e.Seq, "run "+e.RunID+" begins", rest) + b.String()
}

func (t *transcript) runEnd(e schemas.Event, d *schemas.AgentEnd) string {
	how := string(d.TerminationReason)
	if d.ErrorMessage != "" {
		how += ": " + d.ErrorMessage
	}
	totals := fmt.Sprintf("%s, %d tokens in, %d out, %s, %s", plural(d.Turns, "turn"), d.Usage.Input, d.Usage.Output,
		dollars(d.Usage.Cost.Total), millis(d.DurationMs))
	return t.heading(e.Seq, "run "+e.RunID+" ends", totals) +
		"    " + t.style.problem(!d.TerminationReason.Normal(), oneLine(how, t.cut)) + "\n"
}

func (t *transcript) replaced(e schemas.Event, d *schemas.TranscriptReplaced) string {
	block := t.heading(e.Seq, "transcript replaced", "by "+plural(len(d.Messages), "message"))
	for _, m := range d.Messages {
		block += t.message(e.Seq, m, nil)
	}
	return block
}

func (t *transcript) messageEnd(e schemas.Event, d *schemas.MessageEnd) string {
	from, ok := t.started[d.MessageID]
	if !ok {
		from.seq = e.Seq
	}
	block := t.message(from.seq, d.Message.Message, from.start)
	switch {
	case d.Interrupted:
		block += t.note("interrupted: not part of the transcript")
	case d.TerminationReason != "":
		block += t.note("cut off: " + string(d.TerminationReason))
	}
	return block
}

// close prints the messages that were started and have not ended where the transcript ends.
func (t *transcript) close() error {
	bySeq := func(x, y announced) int { return cmp.Compare(x.seq, y.seq) }
	for _, m := range slices.SortedFunc(maps.Values(t.started), bySeq) {
		block := t.heading(m.seq, string(m.start.Role), "") + t.note("announced, not ended up to here")
		if err := t.print(block); err != nil {
			return err
		}
	}
	return nil
}

func (t *transcript) note(text string) string {
	return "    " + t.style.problem(true, "["+oneLine(text, t.cut)+"]") + "\n"
}
