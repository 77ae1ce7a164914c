package mistralconversations

import (
	"strings"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/internal/chat"
	"github.com/loopbus/loopbus/schemas"
)

// message is a message of a request. Content is a string, a list of parts, or nil, which is not sent.
type message struct {
	Role       string          `json:"role"`
	Content    any             `json:"content,omitempty"`
	Name       string          `json:"name,omitempty"`
	ToolCallID string          `json:"tool_call_id,omitempty"`
	ToolCalls  []chat.ToolCall `json:"tool_calls,omitempty"`
}

type imagePart struct {
	Type     string `json:"type"`
	ImageURL string `json:"image_url"`
}

type thinkingPart struct {
	Type     string           `json:"type"`
	Thinking []*chat.TextPart `json:"thinking"`
}

// newMessages returns the conversation in the form of a request.
func newMessages(req *providers.Request) []*message {
	out := []*message{} // never null
	if prompt := req.System(); prompt != "" {
		out = append(out, &message{Role: "system", Content: prompt})
	}
	for _, m := range providers.Transform(req.Messages, req.Model, newIDs().rule) {
		var next *message
		switch m := m.(type) {
		case *schemas.UserMessage:
			next = user(m)
		case *schemas.AssistantMessage:
			next = assistant(m)
		case *schemas.ToolResultMessage:
			next = result(m)
		}
		if next != nil {
			out = append(out, next)
		}
	}
	return out
}

// user returns the user message, or nil if it has no content.
func user(m *schemas.UserMessage) *message {
	if text, ok := chat.PlainText(m.Content); ok {
		return &message{Role: "user", Content: text}
	}
	if parts := partsOf(m.Content); len(parts) > 0 {
		return &message{Role: "user", Content: parts}
	}
	return nil
}

// assistant returns the reply, or nil if it has nothing to send.
func assistant(m *schemas.AssistantMessage) *message {
	out := &message{Role: "assistant"}
	var content schemas.Contents
	for _, block := range m.Content {
		switch b := block.(type) {
		case schemas.Text:
			if strings.TrimSpace(b.Text) != "" {
				content = append(content, b)
			}
		case schemas.Thinking:
			if strings.TrimSpace(b.Thinking) != "" {
				content = append(content, b)
			}
		case schemas.ToolCall:
			out.ToolCalls = append(out.ToolCalls, chat.NewToolCall(b))
		}
	}
	if parts := partsOf(content); len(parts) > 0 {
		out.Content = parts
	}
	if out.Content == nil && out.ToolCalls == nil {
		return nil
	}
	return out
}

func partsOf(content schemas.Contents) (parts []any) {
	for _, block := range content {
		switch b := block.(type) {
		case schemas.Text:
			parts = append(parts, chat.NewTextPart(b.Text))
		case schemas.Thinking:
			parts = append(parts, &thinkingPart{Type: "thinking", Thinking: []*chat.TextPart{chat.NewTextPart(b.Thinking)}})
		case schemas.Image:
			parts = append(parts, &imagePart{Type: "image_url", ImageURL: chat.DataURL(b)})
		}
	}
	return parts
}

// result returns a tool result: its text, followed by its images.
func result(m *schemas.ToolResultMessage) *message {
	images := chat.Images(m.Content)
	text := strings.TrimSpace(chat.Lines(m.Content))
	switch {
	case text != "":
	case len(images) > 0:
		text = providers.TextSeeImage
	default:
		text = providers.TextNoOutput
	}
	if m.IsError {
		text = "[tool error] " + text
	}
	content := schemas.Contents{schemas.Text{Text: text}}
	for _, image := range images {
		content = append(content, image)
	}
	return &message{Role: "tool", Content: partsOf(content), ToolCallID: m.ToolCallID, Name: m.ToolName}
}
