package anthropicmessages

import (
	"encoding/json"

	"github.com/loopbus/loopbus/providers/internal/wtf8"
	"github.com/loopbus/loopbus/schemas"
)

// event is any of the vendor's events; each has some of the members.
type event struct {
	Type         string       `json:"type"`
	Message      message      `json:"message"`
	Index        int          `json:"index"`
	ContentBlock contentBlock `json:"content_block"`
	Delta        delta        `json:"delta"`
	Usage        usage        `json:"usage"`
}

// message is what message_start says.
type message struct {
	ID    string `json:"id"`
	Usage usage  `json:"usage"`
}

// contentBlock is what a block begins with.
type contentBlock struct {
	Type      string          `json:"type"`
	Text      wtf8.Text       `json:"text"`
	Thinking  wtf8.Text       `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
}

// delta is a piece of a block, or what message_delta says.
type delta struct {
	Type        string       `json:"type"`
	Text        wtf8.Text    `json:"text"`
	Thinking    wtf8.Text    `json:"thinking"`
	Signature   string       `json:"signature"`
	PartialJSON wtf8.Text    `json:"partial_json"`
	StopReason  string       `json:"stop_reason"`
	StopDetails *stopDetails `json:"stop_details"`
}

// stopDetails say why the vendor held a reply back.
type stopDetails struct {
	Category    string `json:"category"`
	Explanation string `json:"explanation"`
}

// usage are counts of tokens. A count that is missing or null says nothing.
type usage struct {
	Input      *int64 `json:"input_tokens"`
	Output     *int64 `json:"output_tokens"`
	CacheRead  *int64 `json:"cache_read_input_tokens"`
	CacheWrite *int64 `json:"cache_creation_input_tokens"`
}

// stopReasons are the vendor's stop reasons and what they mean. What pauses a turn is the vendor's own tools, which we
// do not ask for.
var stopReasons = map[string]schemas.StopReason{
	"end_turn":      schemas.StopStop,
	"stop_sequence": schemas.StopStop,
	"pause_turn":    schemas.StopStop,
	"max_tokens":    schemas.StopLength,
	"tool_use":      schemas.StopToolUse,
	"refusal":       schemas.StopError,
	"sensitive":     schemas.StopError,
}

// blockedError is the error of a reply that the vendor held back.
func blockedError(d delta) error {
	text := "Reply blocked: " + d.StopReason
	if d.StopDetails != nil {
		if d.StopDetails.Category != "" {
			text += " (" + d.StopDetails.Category + ")"
		}
		if d.StopDetails.Explanation != "" {
			text += ": " + d.StopDetails.Explanation
		}
	}
	return schemas.NewFailure(schemas.FailureRefused, text)
}
