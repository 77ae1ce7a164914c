package chat

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/schemas"
)

// A TextPart is a block of text in a message's content. CacheControl is an extension of routers to Anthropic.
type TextPart struct {
	Type         string `json:"type"`
	Text         string `json:"text"`
	CacheControl any    `json:"cache_control,omitempty"`
}

// NewTextPart returns the text as a block.
func NewTextPart(text string) *TextPart { return &TextPart{Type: "text", Text: text} }

// A ToolCall is a call in an assistant message.
type ToolCall struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function Function `json:"function"`
}

// Function is what a [ToolCall] calls. Arguments is JSON in a string.
type Function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// NewToolCall returns the call as a request has it.
func NewToolCall(c schemas.ToolCall) ToolCall {
	return ToolCall{ID: c.ID, Type: "function", Function: Function{Name: c.Name, Arguments: arguments(c.Arguments)}}
}

// arguments returns the arguments as compact JSON.
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

// ToolFunction describes a [Tool]. The schema of the parameters goes as it is; Strict is not sent if it is nil.
type ToolFunction struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
	Strict      *bool           `json:"strict,omitempty"`
}

// NewTools returns the tools as a request has them.
func NewTools(definitions []schemas.ToolDefinition, strict *bool) []*Tool {
	tools := make([]*Tool, 0, len(definitions))
	for _, d := range definitions {
		tools = append(tools, &Tool{Type: "function", Function: ToolFunction{
			Name: d.Name, Description: d.Description, Parameters: d.Parameters, Strict: strict,
		}})
	}
	return tools
}

// DataURL returns the image as a URL.
func DataURL(image schemas.Image) string {
	return "data:" + image.MimeType + ";base64," + image.Data
}

// PlainText returns the text of a user's content that was given as a mere text. A line that stands for images is a list
// of one block, as the images would have been.
func PlainText(content schemas.Contents) (string, bool) {
	if len(content) != 1 {
		return "", false
	}
	text, ok := content[0].(schemas.Text)
	return text.Text, ok && text.Text != providers.TextImageOmitted
}

// Lines returns the texts of a tool result, each on lines of its own.
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
