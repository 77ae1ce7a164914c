package rehearsal

import (
	"encoding/json"
	"unicode/utf8"

	"github.com/loopbus/loopbus/schemas"
)

// charactersPerToken is the usual estimate for English text.
const charactersPerToken = 4

// estimate returns the estimated usage of the whole request and the reply.
func estimate(req schemas.ModelRequest, reply schemas.Contents) schemas.Usage {
	in := utf8.RuneCountInString(req.SystemPrompt)
	for _, tool := range req.Tools {
		in += utf8.RuneCountInString(tool.Name) + utf8.RuneCountInString(tool.Description) + runes(tool.Parameters)
	}
	for _, m := range req.Messages {
		switch m := m.(type) {
		case *schemas.UserMessage:
			in += characters(m.Content)
		case *schemas.AssistantMessage:
			in += characters(m.Content)
		case *schemas.ToolResultMessage:
			in += characters(m.Content)
		}
	}
	u := schemas.Usage{Input: tokens(in), Output: tokens(characters(reply))}
	u.TotalTokens = u.Input + u.Output
	return u
}

func tokens(characters int) int64 {
	return int64((characters + charactersPerToken - 1) / charactersPerToken)
}

func characters(content schemas.Contents) (n int) {
	for _, block := range content {
		switch b := block.(type) {
		case schemas.Text:
			n += utf8.RuneCountInString(b.Text)
		case schemas.Thinking:
			n += utf8.RuneCountInString(b.Thinking)
		case schemas.ToolCall:
			n += utf8.RuneCountInString(b.Name) + runes(b.Arguments)
		}
	}
	return n
}

func runes(raw json.RawMessage) int { return utf8.RuneCount(raw) }
