package providers

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/loopbus/loopbus/providers/internal/wtf8"
	"github.com/loopbus/loopbus/schemas"
)

// The texts in place of an image that the model does not accept, for adapters also of one whose type their vendor does
// not know, and of a missing tool result.
const (
	TextImageOmitted     = "(image omitted: model does not support images)"
	TextToolImageOmitted = "(tool image omitted: model does not support images)"
	TextImageUnknown     = "(image omitted: model does not support this type of image)"
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
//     get ids by the rule; a nil rule keeps them. An id that is empty, or that another call has, gets a number before
//     it, and a name that no tool can have becomes one that vendors accept. The model's own replies are unchanged.
//     Thinking without text and signature is removed.
//   - Failed and aborted replies are removed; their tool results stay.
//   - A tool call without a result gets one that says so, because vendors require one.
//   - Texts are cleaned, see [CleanText]. Messages of application-defined roles are removed.
func Transform(messages schemas.Messages, target *Model, rule IDRule) schemas.Messages {
	t := transformer{target: target, rule: rule, sent: make(map[string]sentCall), used: make(map[string]bool),
		times: make(map[string]int), out: make(schemas.Messages, 0, len(messages))}
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
	sent   map[string]sentCall // the latest call with an id, as it is sent
	used   map[string]bool     // ids that are sent
	times  map[string]int      // calls by other models with an id
	open   []schemas.ToolCall  // calls of the last reply, as they are sent, that have no result yet
	out    schemas.Messages
}

// sentCall is what is sent as id and name of a call whose name was was.
type sentCall struct{ id, name, was string }

func (t *transformer) user(m *schemas.UserMessage) {
	user := *m
	user.Content = t.visible(m.Content, TextImageOmitted)
	t.out = append(t.out, &user)
}

func (t *transformer) result(m *schemas.ToolResultMessage) {
	result := *m
	result.Content = t.visible(m.Content, TextToolImageOmitted)
	if c, ok := t.sent[m.ToolCallID]; ok {
		result.ToolCallID = c.id
		if m.ToolName == c.was {
			result.ToolName = c.name
		}
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

// call returns the call in a form that the vendor accepts, and records that form for the results of the call.
func (t *transformer) call(c schemas.ToolCall, from *schemas.AssistantMessage, own bool) schemas.ToolCall {
	id, name := c.ID, c.Name
	if !own {
		c.ThoughtSignature = ""
		c.ID, c.Name = t.freeID(id, from), callName(name)
	}
	if !from.Failed() { // a failed reply is not sent
		t.used[c.ID] = true
	}
	t.sent[id] = sentCall{c.ID, c.Name, name}
	return c
}

// freeID returns the id that a call by another model is sent with. Vendors refuse transcripts in which two calls have
// the same id; servers that count the calls of a reply make such ids, and a rule can make two ids alike.
func (t *transformer) freeID(id string, from *schemas.AssistantMessage) string {
	for {
		t.times[id]++
		free := numbered(id, t.times[id])
		if t.rule != nil {
			free = t.rule(free, from)
		}
		if free != "" && !t.used[free] {
			return free
		}
	}
}

// numbered returns the id for the nth call that has this id. Where an id consists of two, joined by a "|", both get the
// number.
func numbered(id string, n int) string {
	if n == 1 {
		return id
	}
	number := strconv.Itoa(n) + "_"
	return number + strings.ReplaceAll(id, "|", "|"+number)
}

// callName returns the name of a called tool if a tool can have it, and otherwise one that vendors accept: a model can
// call what does not exist by any name.
func callName(name string) string { return cmp.Or(CleanID(name, maxName), "unnamed") }

const maxName = 64

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
