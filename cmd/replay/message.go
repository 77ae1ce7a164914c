package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/schemas"
)

// message returns a message as a block. start is its message_start, if there is one.
func (t *transcript) message(seq uint64, m schemas.Message, start *schemas.MessageStart) string {
	switch m := m.(type) {
	case *schemas.UserMessage:
		return t.heading(seq, "user", "") + t.contents(m.Content)
	case *schemas.AssistantMessage:
		if start == nil {
			start = &schemas.MessageStart{Provider: m.Provider, Model: m.Model}
		}
		return t.replyHeading(seq, start) + t.contents(m.Content) + t.stopped(m)
	case *schemas.ToolResultMessage:
		return t.toolResult(seq, m)
	case *schemas.CustomMessage:
		return t.heading(seq, string(m.Role), "custom message") + "    " + oneLine(string(m.Raw), t.cut) + "\n"
	}
	return t.heading(seq, "no message", "")
}

func (t *transcript) replyHeading(seq uint64, start *schemas.MessageStart) string {
	model := schemas.ModelRef{Provider: start.Provider, ID: start.Model}
	return t.heading(seq, "assistant", model.String())
}

// stopped describes how a reply ended, unless it ended normally.
func (t *transcript) stopped(m *schemas.AssistantMessage) string {
	switch {
	case m.ErrorMessage != "":
		return t.note(string(m.StopReason) + ": " + m.ErrorMessage)
	case m.StopReason != schemas.StopStop && m.StopReason != schemas.StopToolUse:
		return t.note("stopped: " + string(m.StopReason))
	}
	return ""
}

// contents returns a message's blocks, each ending with a line break.
func (t *transcript) contents(contents schemas.Contents) string {
	var b strings.Builder
	for _, c := range contents {
		b.WriteString(t.content(c))
	}
	return b.String()
}

func (t *transcript) content(c schemas.Content) string {
	switch c := c.(type) {
	case schemas.Text:
		return closed(textBlock(c.Text))
	case schemas.Thinking:
		if c.Redacted {
			return "    " + t.style.dim("thinking: redacted by the vendor") + "\n"
		}
		return closed(t.thinkingBlock(c.Thinking))
	case schemas.ToolCall:
		return "    " + t.style.call("-> "+oneLine(c.Name+" "+c.ID, t.cut)) + " " + oneLine(compact(c.Arguments), t.cut) +
			"\n"
	case schemas.Image:
		return "    " + t.style.dim(imageLine(c)) + "\n"
	}
	return ""
}

// textBlock and thinkingBlock omit the last line break, so that the block of a growing text is a prefix of the final
// one.
func textBlock(text string) string {
	return indent(strings.TrimRight(cli.Visible(text), "\n"), 4)
}

func (t *transcript) thinkingBlock(text string) string {
	text = strings.TrimRight(cli.Visible(text), "\n")
	if text == "" {
		return ""
	}
	return "    " + t.style.dim("thinking:") + "\n" + indent(text, 6)
}

func closed(block string) string {
	if block == "" {
		return ""
	}
	return block + "\n"
}

func compact(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "{}"
	}
	return string(raw)
}

func imageLine(i schemas.Image) string {
	return fmt.Sprintf("[image %s, %d bytes]", oneLine(i.MimeType, 60), len(i.Data)/4*3)
}

// toolResult returns a tool's result, cut to the configured number of lines.
func (t *transcript) toolResult(seq uint64, m *schemas.ToolResultMessage) string {
	rest := m.ToolCallID
	if end := t.ended[m.ToolCallID]; end != nil {
		delete(t.ended, m.ToolCallID)
		if end.DurationMs > 0 {
			rest += "  " + millis(end.DurationMs)
		}
		if end.Worker != "" {
			rest += "  " + oneLine(end.Worker, t.cut)
		}
	}
	what := "result of " + oneLine(m.ToolName, t.cut)
	if m.IsError {
		what = "error of " + oneLine(m.ToolName, t.cut)
	}
	block := t.heading(seq, what, rest)
	for _, c := range m.Content {
		if text, ok := c.(schemas.Text); ok {
			block += closed(indent(t.cutLines(strings.TrimRight(text.Text, "\n")), 4))
		} else {
			block += t.content(c)
		}
	}
	return block
}

// cutLines escapes a text, cuts it to the configured number of lines, and notes how many are missing.
func (t *transcript) cutLines(text string) string {
	all := strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	shown := all
	if t.lines > 0 && len(all) > t.lines {
		shown = all[:t.lines]
	}
	out := make([]string, len(shown), len(shown)+1)
	for i, line := range shown {
		out[i] = cli.Visible(cutText(line, t.cut))
	}
	if missing := len(all) - len(shown); missing > 0 {
		out = append(out, t.style.dim(fmt.Sprintf("[%s more]", plural(missing, "line"))))
	}
	return strings.Join(out, "\n")
}
