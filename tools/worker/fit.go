package worker

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/loopbus/loopbus/schemas"
)

// fit encodes an answer in at most limit bytes. What does not fit is left out, with a notice in its place: an answer
// that is too large for the bus would never arrive, and the run would wait for it for ever. Images go first, then
// details, then the middle of texts.
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

// shrinkers are tried one after the other. Text is cut by share of its bytes, but what counts are the bytes of its
// JSON: three times does for all but the strangest texts, and the last one leaves nothing.
var shrinkers = []func(r schemas.ToolResult, share float64) schemas.ToolResult{
	withoutImages, withoutDetails, shorter, shorter, shorter, withoutContent,
}

// worthCutting is the length in bytes of a text that can be cut to something shorter with a notice in it.
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
