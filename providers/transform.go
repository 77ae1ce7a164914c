package providers

import (
	"slices"
	"strings"

	"github.com/loopbus/loopbus/providers/internal/wtf8"
	"github.com/loopbus/loopbus/schemas"
)

// The texts in place of an image that the model does not accept, and of a missing tool result.
const (
	TextImageOmitted     = "(image omitted: model does not support images)"
	TextToolImageOmitted = "(tool image omitted: model does not support images)"
	TextNoResult         = "No result provided"
)

// The text of a tool result that has none, for vendors that require a text: with images after it, or without.
const (
	TextSeeImage = "(see attached image)"
	TextNoOutput = "(no tool output)"
)

// An IDRule returns the id that a tool call by another model gets at a vendor. The results of the call get the same
// id.
type IDRule func(id string, from *schemas.AssistantMessage) string

// Transform returns the transcript in a form that the model accepts. It does not modify the given messages.
//
//   - A model without image input gets a line of text for images.
//   - Of replies by another model, thinking becomes text, hidden thinking and signatures are removed, and tool calls
//     get ids by the rule; a nil rule keeps them. The model's own replies are unchanged. Thinking without text and
//     signature is removed.
//   - Failed and aborted replies are removed; their tool results stay.
//   - A tool call without a result gets one that says so, because vendors require one.
//   - Texts are cleaned, see [CleanText]. Messages of application-defined roles are removed.
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

// transformer converts a transcript for the target model.
type transformer struct {
	target *Model
	rule   IDRule
	ids    map[string]string  // old id of a call -> new id
	open   []schemas.ToolCall // calls of the last reply, with their new ids, that have no result yet
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

// thinking returns the content that a block of thinking is sent as, or nil to omit it.
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

// call returns the call with an id that the vendor accepts, and records the id for the results of the call.
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

// answerOpenCalls adds results for the calls that have none.
func (t *transformer) answerOpenCalls() {
	for _, c := range t.open {
		t.out = append(t.out, &schemas.ToolResultMessage{
			ToolCallID: c.ID, ToolName: c.Name, Content: schemas.Contents{schemas.Text{Text: TextNoResult}}, IsError: true,
		})
	}
	t.open = nil
}
