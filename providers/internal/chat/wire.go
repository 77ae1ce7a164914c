package chat

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/schemas"
)

// A TextPart is a block of text in a message's content. CacheControl is an extension of routers that serve Anthropic's
// models.
type TextPart struct {
	Type         string `json:"type"`
	Text         string `json:"text"`
	CacheControl any    `json:"cache_control,omitempty"`
}

// NewTextPart returns a block of text.
func NewTextPart(text string) *TextPart { return &TextPart{Type: "text", Text: text} }

// A ToolCall is a call in an assistant message.
type ToolCall struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function Function `json:"function"`
}

// Function is the function that a [ToolCall] calls. Arguments is a string of JSON.
type Function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// NewToolCall returns c in the form of a request.
func NewToolCall(c schemas.ToolCall) ToolCall {
	return ToolCall{ID: c.ID, Type: "function", Function: Function{Name: c.Name, Arguments: arguments(c.Arguments)}}
}

// arguments returns raw as compact JSON, or {} if it is empty or not valid.
func arguments(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil || b.Len() == 0 {
		return "{}"
	}
	return b.String()
}

// A Tool is a tool that the model may call. CacheControl is as in [TextPart].
type Tool struct {
	Type         string       `json:"type"`
	Function     ToolFunction `json:"function"`
	CacheControl any          `json:"cache_control,omitempty"`
}

// ToolFunction describes the function of a [Tool]. Parameters is sent unchanged. A nil Strict is not sent.
type ToolFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
	Strict      *bool           `json:"strict,omitempty"`
}

// NewTools returns the tools in the form of a request.
func NewTools(definitions []schemas.ToolDefinition, strict *bool) []*Tool {
	tools := make([]*Tool, 0, len(definitions))
	for _, d := range definitions {
		tools = append(tools, &Tool{Type: "function", Function: ToolFunction{
			Name: d.Name, Description: d.Description, Parameters: d.Parameters, Strict: strict,
		}})
	}
	return tools
}

// DataURL returns the image as a data URL.
func DataURL(image schemas.Image) string {
	return "data:" + image.MimeType + ";base64," + image.Data
}

// PlainText returns the text of a user's content if that can be sent as a string and not as a list of blocks: if it is
// one text. The text that replaces omitted images is sent as a list of one block, as the images would have been.
func PlainText(content schemas.Contents) (string, bool) {
	if len(content) != 1 {
		return "", false
	}
	text, ok := content[0].(schemas.Text)
	return text.Text, ok && text.Text != providers.TextImageOmitted
}

// Lines returns the texts of a tool result, joined by line feeds.
func Lines(content schemas.Contents) string {
	var texts []string
	for _, block := range content {
		if text, ok := block.(schemas.Text); ok {
			texts = append(texts, text.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// Images returns the images among the blocks.
func Images(content schemas.Contents) (images []schemas.Image) {
	for _, block := range content {
		if image, ok := block.(schemas.Image); ok {
			images = append(images, image)
		}
	}
	return images
}
