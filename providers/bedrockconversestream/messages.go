package bedrockconversestream

import (
	"encoding/base64"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/internal/claude"
	"github.com/loopbus/loopbus/schemas"
)

// messages returns the transcript in the form of a request. It puts the results of one reply's tool calls into one
// message, which the vendor requires, and omits blank texts and messages without content, which the vendor refuses.
func (s *settings) messages() ([]types.Message, error) {
	c := converter{claude: s.claude}
	for _, m := range providers.Transform(s.Messages, s.Model, claude.CleanID) {
		if err := c.message(m); err != nil {
			return nil, err
		}
	}
	if n := len(c.out); n > 0 && s.caches() && c.out[n-1].Role == types.ConversationRoleUser {
		c.out[n-1].Content = append(c.out[n-1].Content, &types.ContentBlockMemberCachePoint{Value: s.cachePoint()})
	}
	return c.out, nil
}

// converter converts the messages of a transcript.
type converter struct {
	claude  bool // the model is one of Anthropic's
	results bool // the last message has tool results
	out     []types.Message
}

func (c *converter) message(m schemas.Message) error {
	var blocks []types.ContentBlock
	role, results := types.ConversationRoleUser, false
	switch m := m.(type) {
	case *schemas.UserMessage:
		blocks = userBlocks(m.Content)
	case *schemas.AssistantMessage:
		role = types.ConversationRoleAssistant
		var err error
		if blocks, err = c.assistantBlocks(m.Content); err != nil {
			return err
		}
	case *schemas.ToolResultMessage:
		results = true
		blocks = toolResult(m)
	}
	if len(blocks) == 0 {
		return nil
	}
	if n := len(c.out); results && c.results {
		c.out[n-1].Content = append(c.out[n-1].Content, blocks...)
	} else {
		c.out = append(c.out, types.Message{Role: role, Content: blocks})
	}
	c.results = results
	return nil
}

// userBlocks returns the blocks of a user's content, with a text in place of an image that the vendor cannot accept.
func userBlocks(content schemas.Contents) (blocks []types.ContentBlock) {
	for _, c := range content {
		switch c := c.(type) {
		case schemas.Text:
			if !blank(c.Text) {
				blocks = append(blocks, &types.ContentBlockMemberText{Value: c.Text})
			}
		case schemas.Image:
			if image, ok := imageOf(c); ok {
				blocks = append(blocks, &types.ContentBlockMemberImage{Value: image})
			} else {
				blocks = append(blocks, &types.ContentBlockMemberText{Value: providers.TextImageUnknown})
			}
		}
	}
	return blocks
}

func (c *converter) assistantBlocks(content schemas.Contents) (blocks []types.ContentBlock, err error) {
	for _, block := range content {
		switch b := block.(type) {
		case schemas.Text:
			if !blank(b.Text) {
				blocks = append(blocks, &types.ContentBlockMemberText{Value: b.Text})
			}
		case schemas.Thinking:
			if reasoning := c.thinking(b); reasoning != nil {
				blocks = append(blocks, reasoning)
			}
		case schemas.ToolCall:
			input, err := documentOf(providers.ObjectOf(b.Arguments), "arguments of tool call "+b.ID)
			if err != nil {
				return nil, err
			}
			blocks = append(blocks, &types.ContentBlockMemberToolUse{Value: types.ToolUseBlock{
				ToolUseId: aws.String(b.ID), Name: aws.String(b.Name), Input: input,
			}})
		}
	}
	return blocks, nil
}

// thinking returns the block that thinking is sent as, or nil to omit it. Anthropic's models accept thinking only with
// its signature; the models of other vendors have no signatures.
func (c *converter) thinking(b schemas.Thinking) types.ContentBlock {
	if b.Redacted {
		hidden, err := base64.StdEncoding.DecodeString(b.ThinkingSignature)
		if err != nil || len(hidden) == 0 {
			return nil
		}
		return &types.ContentBlockMemberReasoningContent{
			Value: &types.ReasoningContentBlockMemberRedactedContent{Value: hidden},
		}
	}
	if blank(b.Thinking) {
		return nil
	}
	text := types.ReasoningTextBlock{Text: aws.String(b.Thinking)}
	if c.claude {
		if blank(b.ThinkingSignature) {
			return &types.ContentBlockMemberText{Value: b.Thinking}
		}
		text.Signature = aws.String(b.ThinkingSignature)
	}
	return &types.ContentBlockMemberReasoningContent{Value: &types.ReasoningContentBlockMemberReasoningText{Value: text}}
}

func toolResult(m *schemas.ToolResultMessage) []types.ContentBlock {
	result := types.ToolResultBlock{
		ToolUseId: aws.String(m.ToolCallID), Status: types.ToolResultStatusSuccess, Content: []types.ToolResultContentBlock{},
	}
	if m.IsError {
		result.Status = types.ToolResultStatusError
	}
	for _, b := range userBlocks(m.Content) {
		switch b := b.(type) {
		case *types.ContentBlockMemberText:
			result.Content = append(result.Content, &types.ToolResultContentBlockMemberText{Value: b.Value})
		case *types.ContentBlockMemberImage:
			result.Content = append(result.Content, &types.ToolResultContentBlockMemberImage{Value: b.Value})
		}
	}
	return []types.ContentBlock{&types.ContentBlockMemberToolResult{Value: result}}
}

// imageFormats maps the media types of images that the vendor accepts to its names of them.
var imageFormats = map[string]types.ImageFormat{
	"image/jpeg": types.ImageFormatJpeg, "image/jpg": types.ImageFormatJpeg, "image/png": types.ImageFormatPng,
	"image/gif": types.ImageFormatGif, "image/webp": types.ImageFormatWebp,
}

// imageOf returns an image in the form of a request. It reports false for one that the vendor cannot accept.
func imageOf(i schemas.Image) (types.ImageBlock, bool) {
	format, known := imageFormats[i.MimeType]
	data, err := base64.StdEncoding.DecodeString(i.Data)
	return types.ImageBlock{Format: format, Source: &types.ImageSourceMemberBytes{Value: data}}, known && err == nil
}

func blank(text string) bool { return strings.TrimSpace(text) == "" }
