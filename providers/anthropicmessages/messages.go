package anthropicmessages

import (
	"slices"
	"strings"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/internal/claude"
	"github.com/loopbus/loopbus/schemas"
)

// textOnlyImages is sent before the images of a tool result that has no text.
const textOnlyImages = "(see attached image)"

// messages returns the transcript in the form of a request. It omits blank texts and empty messages, which the vendor
// refuses, and puts the results of one reply's tool calls into one message, which the vendor requires.
func (s *settings) messages() (out []anthropic.MessageParam) {
	var results []anthropic.ContentBlockParamUnion
	flush := func() {
		if len(results) > 0 {
			out = append(out, anthropic.NewUserMessage(results...))
			results = nil
		}
	}
	for _, m := range providers.Transform(s.Messages, s.Model, claude.CleanID) {
		switch m := m.(type) {
		case *schemas.ToolResultMessage:
			results = append(results, toolResult(m))
		case *schemas.UserMessage:
			flush()
			if blocks := userBlocks(m.Content); len(blocks) > 0 {
				out = append(out, userMessage(m, blocks))
			}
		case *schemas.AssistantMessage:
			flush()
			if blocks := assistantBlocks(m.Content); len(blocks) > 0 {
				out = append(out, anthropic.NewAssistantMessage(blocks...))
			}
		}
	}
	flush()
	return out
}

// userMessage returns a user message. A single text is sent as a plain string, which the SDK has no type for.
func userMessage(m *schemas.UserMessage, blocks []anthropic.ContentBlockParamUnion) anthropic.MessageParam {
	user := anthropic.NewUserMessage(blocks...)
	if len(m.Content) == 1 && blocks[0].OfText != nil {
		user.SetExtraFields(map[string]any{"content": blocks[0].OfText.Text})
	}
	return user
}

func userBlocks(content schemas.Contents) (blocks []anthropic.ContentBlockParamUnion) {
	for _, c := range content {
		switch c := c.(type) {
		case schemas.Text:
			if !blank(c.Text) {
				blocks = append(blocks, anthropic.NewTextBlock(c.Text))
			}
		case schemas.Image:
			blocks = append(blocks, imageBlock(c))
		}
	}
	return blocks
}

// imageTypes maps the media types of images that the vendor accepts to its names of them.
var imageTypes = map[string]anthropic.Base64ImageSourceMediaType{
	"image/jpeg": anthropic.Base64ImageSourceMediaTypeImageJPEG,
	"image/jpg":  anthropic.Base64ImageSourceMediaTypeImageJPEG,
	"image/png":  anthropic.Base64ImageSourceMediaTypeImagePNG,
	"image/gif":  anthropic.Base64ImageSourceMediaTypeImageGIF,
	"image/webp": anthropic.Base64ImageSourceMediaTypeImageWebP,
}

// imageBlock returns the block that an image is sent as: a text, if the vendor does not know its type.
func imageBlock(i schemas.Image) anthropic.ContentBlockParamUnion {
	media, ok := imageTypes[i.MimeType]
	if !ok {
		return anthropic.NewTextBlock(providers.TextImageUnknown)
	}
	return anthropic.NewImageBlockBase64(string(media), i.Data)
}

func assistantBlocks(content schemas.Contents) (blocks []anthropic.ContentBlockParamUnion) {
	for _, c := range content {
		switch c := c.(type) {
		case schemas.Text:
			if !blank(c.Text) {
				blocks = append(blocks, anthropic.NewTextBlock(c.Text))
			}
		case schemas.Thinking:
			switch {
			case c.Redacted:
				blocks = append(blocks, anthropic.NewRedactedThinkingBlock(c.ThinkingSignature))
			case blank(c.Thinking):
			case blank(c.ThinkingSignature): // the vendor accepts thinking only with its signature
				blocks = append(blocks, anthropic.NewTextBlock(c.Thinking))
			default:
				blocks = append(blocks, anthropic.NewThinkingBlock(c.ThinkingSignature, c.Thinking))
			}
		case schemas.ToolCall:
			blocks = append(blocks, anthropic.NewToolUseBlock(c.ID, providers.ObjectOf(c.Arguments), c.Name))
		}
	}
	return blocks
}

// toolResult returns a tool result. Without images it is sent as a plain string, which the SDK has no type for.
func toolResult(m *schemas.ToolResultMessage) anthropic.ContentBlockParamUnion {
	result := anthropic.ToolResultBlockParam{ToolUseID: m.ToolCallID, IsError: param.NewOpt(m.IsError)}
	if !slices.ContainsFunc(m.Content, isImage) {
		result.SetExtraFields(map[string]any{"content": texts(m.Content)})
		return anthropic.ContentBlockParamUnion{OfToolResult: &result}
	}
	blocks := userBlocks(m.Content)
	if !slices.ContainsFunc(blocks, isText) {
		blocks = slices.Insert(blocks, 0, anthropic.NewTextBlock(textOnlyImages))
	}
	for _, b := range blocks {
		result.Content = append(result.Content, anthropic.ToolResultBlockParamContentUnion{OfText: b.OfText,
			OfImage: b.OfImage})
	}
	return anthropic.ContentBlockParamUnion{OfToolResult: &result}
}

func texts(content schemas.Contents) string {
	var lines []string
	for _, c := range content {
		if t, ok := c.(schemas.Text); ok {
			lines = append(lines, t.Text)
		}
	}
	return strings.Join(lines, "\n")
}

func isImage(c schemas.Content) bool { return c.ContentType() == schemas.ContentImage }

func isText(b anthropic.ContentBlockParamUnion) bool { return b.OfText != nil }

func blank(text string) bool { return strings.TrimSpace(text) == "" }
