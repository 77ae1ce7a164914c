package worker

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/loopbus/loopbus/schemas"
)

// fit encodes an answer in at most limit bytes. It replaces content that does not fit by a notice, because an answer
// that is too large for the server is never delivered, and the run would wait for ever. It removes images first, then
// the details, then the middle of texts.
func fit(r schemas.ToolAnswer, limit int) ([]byte, error) {
	payload, err := schemas.Marshal(r)
	for _, shrink := range shrinkers {
		if err != nil || len(payload) <= limit {
			return payload, err
		}
		r.Result = shrink(r.Result, float64(limit)/float64(len(payload)))
		payload, err = schemas.Marshal(r)
	}
	return payload, err
}

// shrinkers are applied in order until the answer fits. shorter cuts a share of a text's bytes, but the limit counts
// the bytes of its JSON, where an escape sequence may take six bytes for one. So shorter is applied three times, which
// is enough for almost all texts; withoutContent handles the rest.
var shrinkers = []func(r schemas.ToolResult, share float64) schemas.ToolResult{
	withoutImages, withoutDetails, shorter, shorter, shorter, withoutContent,
}

// worthCutting is the minimum length in bytes of a text that is cut: the notice would make a shorter text longer.
const worthCutting = 512

func withoutImages(r schemas.ToolResult, _ float64) schemas.ToolResult {
	return mapContent(r, func(c schemas.Content) schemas.Content {
		if image, ok := c.(schemas.Image); ok {
			return schemas.Text{Text: fmt.Sprintf("[Image omitted: its %d bytes do not fit in a message of the bus.]",
				len(image.Data))}
		}
		return c
	})
}

func withoutDetails(r schemas.ToolResult, _ float64) schemas.ToolResult {
	if r.Details != nil {
		r.Details = json.RawMessage(`{}`)
	}
	return r
}

func shorter(r schemas.ToolResult, share float64) schemas.ToolResult {
	return mapContent(r, func(c schemas.Content) schemas.Content {
		text, ok := c.(schemas.Text)
		if !ok || len(text.Text) < worthCutting {
			return c
		}
		const notice = "\n[... %d bytes left out: the result does not fit in a message of the bus ...]\n"
		half := max(0, int(float64(len(text.Text))*share*0.9)-len(notice)-10) / 2
		head := strings.ToValidUTF8(text.Text[:half], "")
		tail := strings.ToValidUTF8(text.Text[len(text.Text)-half:], "")
		return schemas.Text{Text: head + fmt.Sprintf(notice, len(text.Text)-len(head)-len(tail)) + tail}
	})
}

func withoutContent(r schemas.ToolResult, _ float64) schemas.ToolResult {
	r.Content = schemas.Contents{schemas.Text{Text: "[The result was left out: it does not fit in a message of the bus.]"}}
	return r
}

func mapContent(r schemas.ToolResult, change func(schemas.Content) schemas.Content) schemas.ToolResult {
	content := make(schemas.Contents, len(r.Content))
	for i, c := range r.Content {
		content[i] = change(c)
	}
	r.Content = content
	return r
}
