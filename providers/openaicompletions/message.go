package openaicompletions

import (
	"encoding/json"
	"strings"

	"github.com/loopbus/loopbus/providers/internal/chat"
	"github.com/loopbus/loopbus/providers/internal/openaiapi"
	"github.com/loopbus/loopbus/schemas"
)

// message is a message of a request. Content is a string, a list of parts, or nil, which is sent as null.
type message struct {
	Role             string            `json:"role"`
	Content          any               `json:"content"`
	Name             string            `json:"name,omitempty"`
	ToolCallID       string            `json:"tool_call_id,omitempty"`
	ToolCalls        []chat.ToolCall   `json:"tool_calls,omitempty"`
	ReasoningDetails []json.RawMessage `json:"reasoning_details,omitempty"`

	// One of these members has the thinking: the one in which the server sent it.
	ReasoningContent *string `json:"reasoning_content,omitempty"`
	Reasoning        *string `json:"reasoning,omitempty"`
	ReasoningText    *string `json:"reasoning_text,omitempty"`
}

type imagePart struct {
	Type     string   `json:"type"`
	ImageURL imageURL `json:"image_url"`
}

type imageURL struct {
	URL string `json:"url"`
}

func newImagePart(image schemas.Image) *imagePart {
	return &imagePart{Type: "image_url", ImageURL: imageURL{URL: chat.DataURL(image)}}
}

// assistant adds a reply, unless it has nothing to send.
func (w *writer) assistant(m *schemas.AssistantMessage) {
	out := &message{Role: roleAssistant}
	if w.compat.RequiresAssistantAfterToolResult {
		out.Content = "" // these servers do not accept null either
	}
	texts := textsOf(m.Content)
	if text := strings.Join(texts, ""); text != "" {
		out.Content = text
	}
	if thoughts := thoughtsOf(m.Content); len(thoughts) > 0 {
		w.addThinking(out, thoughts, texts)
	}
	for _, call := range m.Content.ToolCalls() {
		out.ToolCalls = append(out.ToolCalls, chat.NewToolCall(call))
		if detail := []byte(call.ThoughtSignature); json.Valid(detail) && openaiapi.Truthy(detail) {
			out.ReasoningDetails = append(out.ReasoningDetails, detail)
		}
	}
	if len(out.ToolCalls) == 0 && (out.Content == nil || out.Content == "") {
		return
	}
	if w.compat.RequiresReasoningContent && w.model.Reasoning && out.ReasoningContent == nil {
		out.ReasoningContent = new(string)
	}
	w.add(out)
	w.afterResults = false
}

// addThinking adds the thinking to a reply. It omits thinking without a signature that names the server's member for
// it.
func (w *writer) addThinking(out *message, thoughts []schemas.Thinking, texts []string) {
	list := make([]string, len(thoughts))
	for i, t := range thoughts {
		list[i] = t.Thinking
	}
	if w.compat.RequiresThinkingAsText {
		parts := []any{chat.NewTextPart(strings.Join(list, "\n\n"))}
		for _, text := range texts {
			parts = append(parts, chat.NewTextPart(text))
		}
		out.Content = parts
		return
	}
	joined := strings.Join(list, "\n")
	switch thoughts[0].ThinkingSignature {
	case chat.FieldReasoningContent:
		out.ReasoningContent = &joined
	case chat.FieldReasoning:
		out.Reasoning = &joined
	case chat.FieldReasoningText:
		out.ReasoningText = &joined
	}
}

// textsOf returns the texts that are not blank.
func textsOf(content schemas.Contents) (texts []string) {
	for _, block := range content {
		if b, ok := block.(schemas.Text); ok && strings.TrimSpace(b.Text) != "" {
			texts = append(texts, b.Text)
		}
	}
	return texts
}

// thoughtsOf returns the blocks of thinking that are not blank.
func thoughtsOf(content schemas.Contents) (thoughts []schemas.Thinking) {
	for _, block := range content {
		if b, ok := block.(schemas.Thinking); ok && strings.TrimSpace(b.Thinking) != "" {
			thoughts = append(thoughts, b)
		}
	}
	return thoughts
}
