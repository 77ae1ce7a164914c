package playback_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/providers/internal/playback"
	"github.com/loopbus/loopbus/schemas"
)

func TestSplittersLoseNothing(t *testing.T) {
	for _, text := range []string{"", "a", "one two  three\n\nfour ", " leading", "\n", "ü😀é", "bro\xffken \xc3",
		strings.Repeat("long ", 50)} {
		for name, split := range map[string]playback.Splitter{
			"1": playback.Chunks(1), "3": playback.Chunks(3), "100": playback.Chunks(100), "words": playback.Words,
		} {
			parts := slices.Collect(split(text))
			if strings.Join(parts, "") != text || slices.Contains(parts, "") {
				t.Errorf("%s: %q became %q", name, text, parts)
			}
		}
	}
	if got := slices.Collect(playback.Chunks(2)("üöäß!")); !slices.Equal(got, []string{"üö", "äß", "!"}) {
		t.Errorf("chunks %q", got)
	}
	if got := slices.Collect(playback.Words("a b\n\nc")); !slices.Equal(got, []string{"a ", "b\n\n", "c"}) {
		t.Errorf("words %q", got)
	}
}

// TestAbortedReplyKeepsStreamedContent aborts a reply after each of its events. Its blocks overlap and are not in
// order.
func TestAbortedReplyKeepsStreamedContent(t *testing.T) {
	call := &schemas.ToolCall{Name: "ls"}
	steps := []struct {
		event schemas.StreamEvent
		want  schemas.Contents // if the abort comes right after it
	}{
		{schemas.StreamEvent{Type: schemas.StreamStart}, schemas.Contents{}},
		{schemas.StreamEvent{Type: schemas.StreamTextStart, ContentIndex: 1}, schemas.Contents{}},
		{schemas.StreamEvent{Type: schemas.StreamTextDelta, ContentIndex: 1, Delta: "a"},
			schemas.Contents{schemas.Text{Text: "a"}}},
		{schemas.StreamEvent{Type: schemas.StreamThinkingDelta, ContentIndex: 0, Delta: "t"},
			schemas.Contents{schemas.Text{Text: "a"}, schemas.Thinking{Thinking: "t"}}},
		{schemas.StreamEvent{Type: schemas.StreamTextEnd, ContentIndex: 1, Content: "ab"},
			schemas.Contents{schemas.Text{Text: "ab"}, schemas.Thinking{Thinking: "t"}}},
		{schemas.StreamEvent{Type: schemas.StreamToolCallDelta, ContentIndex: 2, Delta: "{"},
			schemas.Contents{schemas.Text{Text: "ab"}, schemas.Thinking{Thinking: "t"}}},
		{schemas.StreamEvent{Type: schemas.StreamToolCallEnd, ContentIndex: 2, ToolCall: call},
			schemas.Contents{schemas.Text{Text: "ab"}, schemas.Thinking{Thinking: "t"},
				schemas.ToolCall{ID: "call_7_3", Name: "ls"}}},
	}
	var reply playback.Reply
	for _, s := range steps {
		reply.Steps = append(reply.Steps, playback.Step{Event: s.event})
	}
	reply.Steps = append(reply.Steps, playback.Step{Event: schemas.StreamEvent{Type: schemas.StreamDone}})
	for n := range steps {
		ctx, cancel := context.WithCancel(t.Context())
		seen := 0
		var last schemas.StreamEvent
		reply.Play(ctx, playback.Place{Number: 7}, time.Now(), func(e schemas.StreamEvent, _ error) bool {
			if last = e; seen == n {
				cancel()
			}
			seen++
			return true
		})
		cancel()
		if last.Type != schemas.StreamError {
			t.Fatalf("after %d events: %+v", n+1, last)
		}
		if d := cmp.Diff(steps[n].want, last.Message.Content); d != "" {
			t.Errorf("after %d events (-want +got):\n%s", n+1, d)
		}
	}
	if call.ID != "" {
		t.Error("the prepared call was changed")
	}
}
