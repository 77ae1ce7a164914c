package compaction

import (
	"fmt"
	"strings"

	"github.com/loopbus/loopbus/schemas"
)

// resultUnits is the length to which a tool result is cut for the summary, in UTF-16 units.
const resultUnits = 2000

// Serialize writes a conversation as one text, so that the model that summarizes it does not continue it. It leaves out
// images and shortens long tool results.
func Serialize(messages []schemas.Message) string {
	var parts []string
	part := func(who, text string) { parts = append(parts, "["+who+"]: "+text) }
	for _, m := range ToLLM(messages) {
		switch m := m.(type) {
		case *schemas.UserMessage:
			if text := strings.Join(texts(m.Content), ""); text != "" {
				part("User", text)
			}
		case *schemas.AssistantMessage:
			if thoughts := thoughts(m.Content); len(thoughts) > 0 {
				part("Assistant thinking", strings.Join(thoughts, "\n"))
			}
			if texts := texts(m.Content); len(texts) > 0 {
				part("Assistant", strings.Join(texts, "\n"))
			}
			if calls := calls(m.Content); len(calls) > 0 {
				part("Assistant tool calls", strings.Join(calls, "; "))
			}
		case *schemas.ToolResultMessage:
			if text := strings.Join(texts(m.Content), ""); text != "" {
				part("Tool result", shortened(text))
			}
		}
	}
	return strings.Join(parts, "\n\n")
}

func texts(contents schemas.Contents) (list []string) {
	for _, c := range contents {
		if t, ok := c.(schemas.Text); ok {
			list = append(list, t.Text)
		}
	}
	return list
}

func thoughts(contents schemas.Contents) (list []string) {
	for _, c := range contents {
		if t, ok := c.(schemas.Thinking); ok {
			list = append(list, t.Thinking)
		}
	}
	return list
}

func calls(contents schemas.Contents) (list []string) {
	for _, call := range contents.ToolCalls() {
		var args []string
		given, _ := members(call.Arguments)
		for _, m := range given {
			args = append(args, m.key+"="+compactJSON(m.value))
		}
		list = append(list, call.Name+"("+strings.Join(args, ", ")+")")
	}
	return list
}

// shortened shortens a text that is too long. A surrogate pair that the cut splits becomes U+FFFD.
func shortened(text string) string {
	n := 0
	for i, r := range text {
		size := unitsOf(r)
		if n+size > resultUnits {
			head := text[:i]
			if n < resultUnits {
				head += "\uFFFD"
			}
			return fmt.Sprintf("%s\n\n[... %d more characters truncated]", head, units(text)-resultUnits)
		}
		n += size
	}
	return text
}
