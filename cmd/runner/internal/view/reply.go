package view

import (
	"strings"

	"github.com/loopbus/loopbus/schemas"
)

func (t *Terminal) delta(message string, e schemas.StreamEvent) {
	if message != t.message {
		return // the reply is already complete
	}
	switch e.Type {
	case schemas.StreamTextDelta:
		t.stream(e.ContentIndex, e.Delta, "")
	case schemas.StreamThinkingDelta:
		t.stream(e.ContentIndex, e.Delta, dim)
	}
}

func (t *Terminal) stream(block int, text, style string) {
	if block != t.block {
		t.newline()
		t.block = block
	}
	if t.streamed[block] == nil {
		t.streamed[block] = new(strings.Builder)
	}
	t.streamed[block].WriteString(text)
	t.print(style, text)
}

// messageEnd prints what was not streamed of a message, which is all of it except for replies.
func (t *Terminal) messageEnd(d *schemas.MessageEnd) {
	switch m := d.Message.Message.(type) {
	case *schemas.UserMessage:
		t.say(bold, "you: "+m.Content.JoinText())
	case *schemas.AssistantMessage:
		if d.MessageID != t.message {
			return
		}
		if !t.fits(m, d.Interrupted || m.Failed()) {
			t.say(dim, "(replaces the text above)")
			clear(t.streamed)
		}
		for i, c := range m.Content {
			text, style := spoken(c)
			if rest := text[min(t.shown(i), len(text)):]; rest != "" {
				t.stream(i, rest, style)
			}
		}
		t.newline()
		if m.ErrorMessage != "" {
			t.say(red, string(m.StopReason)+": "+m.ErrorMessage)
		}
		t.message = ""
	}
}

// fits reports whether what was streamed is a prefix of the reply: any publisher of updates may have sent something
// else. If the reply was cut off, more may have been streamed than it contains.
func (t *Terminal) fits(m *schemas.AssistantMessage, cut bool) bool {
	for block, streamed := range t.streamed {
		var text string
		if block >= 0 && block < len(m.Content) {
			text, _ = spoken(m.Content[block])
		}
		shown := streamed.String()
		if !strings.HasPrefix(text, shown) && !(cut && strings.HasPrefix(shown, text)) {
			return false
		}
	}
	return true
}

// shown returns how many bytes of a block were printed.
func (t *Terminal) shown(block int) int {
	if b := t.streamed[block]; b != nil {
		return b.Len()
	}
	return 0
}

// spoken returns the text of a block and its style.
func spoken(c schemas.Content) (text, style string) {
	switch c := c.(type) {
	case schemas.Text:
		return c.Text, ""
	case schemas.Thinking:
		return c.Thinking, dim
	}
	return "", ""
}
