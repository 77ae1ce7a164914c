package chat

import (
	"encoding/json"
	"strings"

	"github.com/loopbus/loopbus/providers/internal/wtf8"
)

// Content is the content of a delta: a string, or a list of strings and parts. It omits parts that are neither text
// nor thinking.
type Content []Part

// A Part is a piece of a reply's text or thinking. A piece of thinking is never empty.
type Part struct {
	Thinking bool // reports whether Text is thinking
	Text     string
}

// UnmarshalJSON reads any JSON value.
func (c *Content) UnmarshalJSON(data []byte) error {
	*c = nil
	if data[0] != '[' {
		c.add(data)
		return nil
	}
	var items []json.RawMessage
	if err := json.Unmarshal(data, &items); err != nil {
		return err
	}
	for _, item := range items {
		c.add(item)
	}
	return nil
}

func (c *Content) add(item json.RawMessage) {
	var text wtf8.Text
	if item[0] == '"' && text.UnmarshalJSON(item) == nil {
		*c = append(*c, Part{Text: string(text)})
		return
	}
	var typed struct {
		Type     string   `json:"type"`
		Text     Text     `json:"text"`
		Thinking thoughts `json:"thinking"`
	}
	_ = Decode(item, &typed) // a value that is not an object has no type
	switch {
	case typed.Type == "text":
		*c = append(*c, Part{Text: string(typed.Text)})
	case typed.Type == "thinking" && typed.Thinking != "":
		*c = append(*c, Part{Thinking: true, Text: string(typed.Thinking)})
	}
}

// thoughts is the thinking member of a part: a string, or a list of strings and text parts, which are joined.
type thoughts string

// UnmarshalJSON reads any JSON value.
func (t *thoughts) UnmarshalJSON(data []byte) error {
	items := []json.RawMessage{data}
	if data[0] == '[' {
		if err := json.Unmarshal(data, &items); err != nil {
			return err
		}
	}
	var joined strings.Builder
	for _, item := range items {
		var plain wtf8.Text
		if item[0] == '"' && plain.UnmarshalJSON(item) == nil {
			joined.WriteString(string(plain))
			continue
		}
		var part struct {
			Text Text `json:"text"`
		}
		_ = Decode(item, &part) // a value that is not an object has no text
		joined.WriteString(string(part.Text))
	}
	*t = thoughts(joined.String())
	return nil
}

// The members of a delta in which servers stream thinking, most specific first: some servers send the same text in two
// of them.
const (
	FieldReasoningContent = "reasoning_content"
	FieldReasoning        = "reasoning"
	FieldReasoningText    = "reasoning_text"
)

// Reasoning holds the members of a delta in which servers stream thinking.
type Reasoning struct {
	Content Text `json:"reasoning_content"`
	Plain   Text `json:"reasoning"`
	Text    Text `json:"reasoning_text"`
}

// Thinking returns the thinking and the name of its member. text is empty if the delta has no thinking.
func (r *Reasoning) Thinking() (text, field string) {
	switch {
	case r.Content != "":
		return string(r.Content), FieldReasoningContent
	case r.Plain != "":
		return string(r.Plain), FieldReasoning
	}
	return string(r.Text), FieldReasoningText
}
