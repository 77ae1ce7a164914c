package anthropicmessages

import (
	"encoding/json"

	"github.com/loopbus/loopbus/providers/internal/wtf8"
	"github.com/loopbus/loopbus/schemas"
)

// event is any of the vendor's events. Each event has some of the members.
type event struct {
	Type         string       `json:"type"`
	Message      message      `json:"message"`
	Index        int          `json:"index"`
	ContentBlock contentBlock `json:"content_block"`
	Delta        delta        `json:"delta"`
	Usage        usage        `json:"usage"`
}

// message is the member of message_start.
type message struct {
	ID    string `json:"id"`
	Usage usage  `json:"usage"`
}

// contentBlock is the member of content_block_start: the beginning of a block.
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

// delta is the member of content_block_delta, a piece of a block, or of message_delta.
type delta struct {
	Type        string       `json:"type"`
	Text        wtf8.Text    `json:"text"`
	Thinking    wtf8.Text    `json:"thinking"`
	Signature   string       `json:"signature"`
	PartialJSON wtf8.Text    `json:"partial_json"`
	StopReason  string       `json:"stop_reason"`
	StopDetails *stopDetails `json:"stop_details"`
}

// stopDetails explains why the vendor blocked a reply.
type stopDetails struct {
	Category    string `json:"category"`
	Explanation string `json:"explanation"`
}

// usage holds token counts. A count that is missing or null leaves the previous one unchanged.
type usage struct {
	Input      *int64 `json:"input_tokens"`
	Output     *int64 `json:"output_tokens"`
	CacheRead  *int64 `json:"cache_read_input_tokens"`
	CacheWrite *int64 `json:"cache_creation_input_tokens"`
}

// stopReasons maps the vendor's stop reasons. Only the vendor's own tools, which no request has, pause a turn.
var stopReasons = map[string]schemas.StopReason{
	"end_turn":      schemas.StopStop,
	"stop_sequence": schemas.StopStop,
	"pause_turn":    schemas.StopStop,
	"max_tokens":    schemas.StopLength,
	"tool_use":      schemas.StopToolUse,
	"refusal":       schemas.StopError,
	"sensitive":     schemas.StopError,
}

// blockedError returns the error of a reply that the vendor blocked.
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
