package providers

import (
	"slices"
	"strings"

	"github.com/loopbus/loopbus/providers/internal/wtf8"
	"github.com/loopbus/loopbus/schemas"
)

// What stands for an image that the model cannot see, and for a result that never came.
const (
	TextImageOmitted     = "(image omitted: model does not support images)"
	TextToolImageOmitted = "(tool image omitted: model does not support images)"
	TextNoResult         = "No result provided"
)

// What a tool result says that has no text, for the vendors that insist on one: its images follow, or there is nothing.
const (
	TextSeeImage = "(see attached image)"
	TextNoOutput = "(no tool output)"
)

// An IDRule returns the id that a tool call is to have at a vendor, for a call that another model made. The results of
// the call get the same id.
type IDRule func(id string, from *schemas.AssistantMessage) string

// Transform returns the transcript as the model can take it. The messages given are not changed.
//
//   - A model without sight gets a line for images.
//   - Of what another model wrote, thinking becomes text, hidden thinking and signatures go, and tool calls get ids by
//     the rule; nil keeps them. The model's own words stay as they are. Thinking without words or signature goes.
//   - Failed and aborted replies go; their tool results stay.
//   - A tool call without a result gets one that says so: the vendors insist on one.
//   - Texts are clean, see [CleanText]. Messages of roles no model knows go.
func Transform(messages schemas.Messages, target *Model, rule IDRule) schemas.Messages {
	t := transformer{target: target, rule: rule, ids: make(map[string]string),
		out: make(schemas.Messages, 0, len(messages))}
	for _, m := range messages {
		switch m := m.(type) {
		case *schemas.UserMessage:
			t.answerOpenCalls()
			t.user(m)
		case *schemas.AssistantMessage:
			t.answerOpenCalls()
			t.assistant(m)
		case *schemas.ToolResultMessage:
			t.result(m)
		}
	}
	t.answerOpenCalls()
	return t.out
}

type transformer struct {
	target *Model
	rule   IDRule
	ids    map[string]string  // old id of a call -> new id
	open   []schemas.ToolCall // calls of the last reply that had any, as sent, without those that have a result
	out    schemas.Messages
}

func (t *transformer) user(m *schemas.UserMessage) {
	user := *m
	user.Content = t.visible(m.Content, TextImageOmitted)
	t.out = append(t.out, &user)
}

func (t *transformer) result(m *schemas.ToolResultMessage) {
	result := *m
	result.Content = t.visible(m.Content, TextToolImageOmitted)
	if id, ok := t.ids[m.ToolCallID]; ok {
		result.ToolCallID = id
	}
	t.open = slices.DeleteFunc(t.open, func(c schemas.ToolCall) bool { return c.ID == result.ToolCallID })
	t.out = append(t.out, &result)
}

func (t *transformer) assistant(m *schemas.AssistantMessage) {
	reply := *m
	reply.Content = make(schemas.Contents, 0, len(m.Content))
	own := t.target.Wrote(m)
	for _, block := range m.Content {
		switch b := block.(type) {
		case schemas.Text:
			b.Text = wtf8.Clean(b.Text)
			if !own {
				b.TextSignature = ""
			}
			reply.Content = append(reply.Content, b)
		case schemas.Thinking:
			if c := thinking(b, own); c != nil {
				reply.Content = append(reply.Content, c)
			}
		case schemas.ToolCall:
			reply.Content = append(reply.Content, t.call(b, m, own))
		}
	}
	if m.Failed() {
		return
	}
	t.open = reply.Content.ToolCalls()
	t.out = append(t.out, &reply)
}

// thinking returns what becomes of a thought, nil for nothing.
func thinking(b schemas.Thinking, own bool) schemas.Content {
	b.Thinking = wtf8.Clean(b.Thinking)
	switch blank := strings.TrimSpace(b.Thinking) == ""; {
	case own && (b.Redacted || b.ThinkingSignature != ""):
		return b
	case b.Redacted || blank:
		return nil
	case own:
		return b
	}
	return schemas.Text{Text: b.Thinking}
}

// call returns the call with an id that the vendor takes, which its results will have as well.
func (t *transformer) call(c schemas.ToolCall, from *schemas.AssistantMessage, own bool) schemas.ToolCall {
	if own {
		return c
	}
	c.ThoughtSignature = ""
	if t.rule != nil {
		if id := t.rule(c.ID, from); id != c.ID {
			t.ids[c.ID] = id
			c.ID = id
		}
	}
	return c
}

// visible returns the blocks with clean text, and one line for each run of images if the model cannot see them.
func (t *transformer) visible(blocks schemas.Contents, line string) schemas.Contents {
	out := make(schemas.Contents, 0, len(blocks))
	omitted := false
	for _, block := range blocks {
		switch b := block.(type) {
		case schemas.Text:
			b.Text = wtf8.Clean(b.Text)
			omitted = b.Text == line
			block = b
		case schemas.Image:
			if t.target.SeesImages() {
				break
			}
			if omitted {
				continue
			}
			block, omitted = schemas.Text{Text: line}, true
		}
		out = append(out, block)
	}
	return out
}

func (t *transformer) answerOpenCalls() {
	for _, c := range t.open {
		t.out = append(t.out, &schemas.ToolResultMessage{
			ToolCallID: c.ID, ToolName: c.Name, Content: schemas.Contents{schemas.Text{Text: TextNoResult}}, IsError: true,
		})
	}
	t.open = nil
}
