package assemble

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/internal/held"
	"github.com/loopbus/loopbus/schemas"
)

// A reply that has to release its memory does not wait until its arguments are parsed. The test is not parallel: the
// turns for that are those of the process.
func TestAnEvictedReplyDoesNotWaitToBeParsed(t *testing.T) {
	for range cap(parsing) {
		parsing <- struct{}{}
		defer func() { <-parsing }()
	}
	ended := make(chan *schemas.AssistantMessage, 1)
	go func() {
		req := &providers.Request{Model: &providers.Model{API: "test"}}
		for e := range Run(t.Context(), req, func(ctx context.Context, s *Stream) error {
			for range 3 {
				s.OpenToolCall("c", "echo").Delta(strings.Repeat("x", 1<<20))
			}
			go func() { // others that are smaller need its room while it waits
				for range 160 {
					other := held.Replies.Share(t.Context(), "", func(error) {})
					defer other.Release()
					_ = other.Hold(2 << 20) // it may have to end itself
				}
			}()
			s.EndAll()
			return ctx.Err()
		}) {
			if e.Type == schemas.StreamError {
				ended <- e.Message
			}
		}
	}()
	select {
	case m := <-ended:
		if len(m.Content) > 0 {
			t.Errorf("it ends with %d contents", len(m.Content))
		}
	case <-time.After(20 * time.Second):
		t.Fatal("it waits")
	}
}
