package rehearsal

import (
	"context"
	"iter"
	"time"

	"github.com/loopbus/loopbus/providers/internal/playback"
	"github.com/loopbus/loopbus/schemas"
)

// Model is the rehearsal model. The zero value is ready for use; it is safe for concurrent use.
type Model struct {
	Delay time.Duration    // pause before each word, so that a person sees it stream
	Now   func() time.Time // for the timestamps of messages; nil means time.Now
}

// Stream answers the request by rules. It never yields an error, and ends with an error event when ctx ends.
func (m *Model) Stream(ctx context.Context, req schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	return func(yield func(schemas.StreamEvent, error) bool) {
		now := time.Now
		if m.Now != nil {
			now = m.Now
		}
		message := answer(req)
		message.Usage = estimate(req, message.Content)
		playback.Prepare(message, playback.Words, m.Delay).Play(ctx, playback.PlaceOf(req), now(), yield)
	}
}

// answer returns the reply, which depends on the end of the transcript.
func answer(req schemas.ModelRequest) schemas.AssistantMessage {
	offered := make(map[string]bool, len(req.Tools))
	for _, tool := range req.Tools {
		offered[tool.Name] = true
	}
	if results := lastResults(req.Messages); len(results) > 0 {
		return say(report(results))
	}
	calls, unknown := parse(lastWords(req.Messages), offered)
	if len(calls) == 0 && len(unknown) == 0 {
		return say(introduce(offered))
	}
	message := say(announce(calls, unknown, offered))
	for _, call := range calls {
		message.Content = append(message.Content, call)
		message.StopReason = schemas.StopToolUse
	}
	return message
}

func say(text string) schemas.AssistantMessage {
	return schemas.AssistantMessage{Content: schemas.Contents{schemas.Text{Text: text}}, StopReason: schemas.StopStop}
}

// lastResults returns the tool results at the end of the transcript.
func lastResults(messages schemas.Messages) []*schemas.ToolResultMessage {
	var results []*schemas.ToolResultMessage
	for _, m := range messages {
		if result, ok := m.(*schemas.ToolResultMessage); ok {
			results = append(results, result)
		} else {
			results = nil
		}
	}
	return results
}

func lastWords(messages schemas.Messages) string {
	for i := len(messages) - 1; i >= 0; i-- {
		if user, ok := messages[i].(*schemas.UserMessage); ok {
			return user.Content.JoinText()
		}
	}
	return ""
}
