package mistralconversations

import (
	"encoding/json"
	"strings"

	"github.com/loopbus/loopbus/providers/internal/chat"
	"github.com/loopbus/loopbus/providers/internal/wtf8"
	"github.com/loopbus/loopbus/schemas"
)

// chunk is an event of the stream.
type chunk struct {
	ID      string          `json:"id"`
	Object  string          `json:"object"` // error, where it is no chunk at all
	Error   json.RawMessage `json:"error"`
	Usage   *usage          `json:"usage"`
	Choices []struct {
		Delta struct {
			Content   parts       `json:"content"`
			ToolCalls []callDelta `json:"tool_calls"`
		} `json:"delta"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
}

type callDelta struct {
	ID       string `json:"id"`
	Index    int    `json:"index"`
	Function struct {
		Name      string         `json:"name"`
		Arguments chat.Arguments `json:"arguments"`
	} `json:"function"`
}

// usage is what a reply took, in tokens.
type usage struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Total      int64 `json:"total_tokens"`
}

func (u *usage) tokens() schemas.Usage {
	out := schemas.Usage{Input: u.Prompt, Output: u.Completion, TotalTokens: u.Total}
	if out.TotalTokens == 0 {
		out.TotalTokens = out.Input + out.Output
	}
	return out
}

// parts are the content of a delta: a string, or a list of strings and of parts of several types, of which those that
// are neither text nor thinking are left out.
type parts []part

type part struct {
	thinking bool
	text     string
}

// UnmarshalJSON reads any JSON value.
func (p *parts) UnmarshalJSON(data []byte) error {
	if data[0] != '[' {
		p.add(data)
		return nil
	}
	var items []json.RawMessage
	if err := json.Unmarshal(data, &items); err != nil {
		return err
	}
	for _, item := range items {
		p.add(item)
	}
	return nil
}

func (p *parts) add(item json.RawMessage) {
	var text wtf8.Text
	if item[0] == '"' && text.UnmarshalJSON(item) == nil {
		*p = append(*p, part{text: string(text)})
		return
	}
	var typed struct {
		Type     string    `json:"type"`
		Text     chat.Text `json:"text"`
		Thinking []struct {
			Text chat.Text `json:"text"`
		} `json:"thinking"`
	}
	_ = chat.Decode(item, &typed) // what is no part is none of the types
	switch typed.Type {
	case "text":
		*p = append(*p, part{text: string(typed.Text)})
	case "thinking":
		var thoughts strings.Builder
		for _, piece := range typed.Thinking {
			thoughts.WriteString(string(piece.Text))
		}
		if thoughts.Len() > 0 {
			*p = append(*p, part{thinking: true, text: thoughts.String()})
		}
	}
}
