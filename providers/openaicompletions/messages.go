package openaicompletions

import (
	"strings"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/internal/chat"
	"github.com/loopbus/loopbus/schemas"
)

// The roles of messages.
const (
	roleSystem    = "system"
	roleDeveloper = "developer"
	roleUser      = "user"
	roleAssistant = "assistant"
	roleTool      = "tool"
)

// The texts of messages that are inserted because servers require them.
const (
	textBridge = "I have processed the tool results."
	textImages = "Attached image(s) from tool result:"
)

// newMessages returns the conversation in the form of a request.
func newMessages(req *providers.Request, c *Compat) []*message {
	w := writer{model: req.Model, compat: c}
	w.system(req.System())
	for _, m := range providers.Transform(req.Messages, req.Model, callID(req.Model)) {
		switch m := m.(type) {
		case *schemas.UserMessage:
			w.endResults()
			w.user(m)
		case *schemas.AssistantMessage:
			w.endResults()
			w.assistant(m)
		case *schemas.ToolResultMessage:
			w.result(m)
		}
	}
	w.endResults()
	return w.out
}

// callID returns the rule for the ids of another model's tool calls. OpenAI accepts at most 40 characters. An id of the
// Responses API consists of two ids, of which the first is the call's.
func callID(m *providers.Model) providers.IDRule {
	return func(id string, _ *schemas.AssistantMessage) string {
		if call, _, ok := strings.Cut(id, "|"); ok {
			return providers.CleanID(call, 40)
		}
		if m.Provider == "openai" && len(id) > 40 {
			return strings.ToValidUTF8(id[:40], "")
		}
		return id
	}
}

// A writer writes the messages of a request.
type writer struct {
	model  *providers.Model
	compat *Compat
	out    []*message

	images       []any // of the tool results since the last other message
	afterResults bool  // the last message is a tool result
}

func (w *writer) add(m *message) { w.out = append(w.out, m) }

func (w *writer) system(prompt string) {
	if prompt == "" {
		return
	}
	role := roleSystem
	if w.model.Reasoning && w.compat.SupportsDeveloperRole {
		role = roleDeveloper
	}
	w.add(&message{Role: role, Content: prompt})
}

// user adds a message, unless it is empty.
func (w *writer) user(m *schemas.UserMessage) {
	out := &message{Role: roleUser}
	if text, ok := chat.PlainText(m.Content); ok {
		out.Content = text
	} else if parts := partsOf(m.Content); len(parts) > 0 {
		out.Content = parts
	} else {
		return
	}
	w.bridge()
	w.add(out)
	w.afterResults = false
}

func partsOf(content schemas.Contents) (parts []any) {
	for _, block := range content {
		switch b := block.(type) {
		case schemas.Text:
			parts = append(parts, chat.NewTextPart(b.Text))
		case schemas.Image:
			parts = append(parts, newImagePart(b))
		}
	}
	return parts
}

// result adds a tool result, which can only be text. endResults adds its images.
func (w *writer) result(m *schemas.ToolResultMessage) {
	images := chat.Images(m.Content)
	text := chat.Lines(m.Content)
	switch {
	case text != "":
	case len(images) > 0:
		text = providers.TextSeeImage
	default:
		text = providers.TextNoOutput
	}
	result := &message{Role: roleTool, Content: text, ToolCallID: m.ToolCallID}
	if w.compat.RequiresToolResultName {
		result.Name = m.ToolName
	}
	w.add(result)
	w.afterResults = true
	for _, image := range images {
		w.images = append(w.images, newImagePart(image))
	}
}

// endResults adds the images of the preceding tool results as a user message.
func (w *writer) endResults() {
	if len(w.images) == 0 {
		return
	}
	w.bridge()
	w.add(&message{Role: roleUser, Content: append([]any{chat.NewTextPart(textImages)}, w.images...)})
	w.images, w.afterResults = nil, false
}

// bridge adds an assistant message after a tool result if the server does not accept a user message there.
func (w *writer) bridge() {
	if w.afterResults && w.compat.RequiresAssistantAfterToolResult {
		w.add(&message{Role: roleAssistant, Content: textBridge})
	}
}
