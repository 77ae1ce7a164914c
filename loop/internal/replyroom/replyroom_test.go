package replyroom_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/loop/internal/replyroom"
	"github.com/loopbus/loopbus/schemas"
)

// The room of a reply follows the length of its JSON, of which control characters take six bytes each.
func TestOf(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("\x01", 100<<10)
	text := func(s string) schemas.Contents { return schemas.Contents{schemas.Text{Text: s}} }
	for name, c := range map[string]struct {
		content schemas.Contents
		counts  bool
	}{
		"small":              {text(strings.Repeat("x", 255<<10)), false},
		"large":              {text(strings.Repeat("x", 300<<10)), true},
		"control characters": {text(long), true},
		"all blocks": {schemas.Contents{
			schemas.Thinking{Thinking: strings.Repeat("x", 150<<10), ThinkingSignature: strings.Repeat("x", 50<<10)},
			schemas.ToolCall{ID: "c", Arguments: json.RawMessage(`"` + strings.Repeat("x", 60<<10) + `"`)}}, true},
	} {
		reply := &schemas.AssistantMessage{Content: c.content}
		data, err := json.Marshal(reply)
		if err != nil {
			t.Fatal(err)
		}
		if room := replyroom.Of(reply); (room > 0) != c.counts || c.counts && room < 5*len(data) {
			t.Errorf("%s: room of %d bytes for a reply of %d", name, room, len(data))
		}
	}
}
