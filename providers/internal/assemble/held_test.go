package assemble_test

import (
	"context"
	"testing"

	"github.com/loopbus/loopbus/providers/internal/assemble"
	"github.com/loopbus/loopbus/schemas"
)

// A reply that holds most of the memory of all replies, and does not go on, ends as soon as another reply needs room.
func TestTheLargestReplyMakesRoom(t *testing.T) {
	large, ended := make(chan struct{}), make(chan *schemas.AssistantMessage, 1)
	code := make(chan schemas.FailureCode, 1)
	go func() {
		events, final := collect(t, context.Background(), request(), func(ctx context.Context, s *assemble.Stream) error {
			share := s.Share()
			defer share.Release()
			if err := share.Hold(200 << 20); err != nil {
				return err
			}
			s.OpenText().Delta("so far")
			close(large)
			<-ctx.Done()
			return ctx.Err()
		})
		code <- events[len(events)-1].FailureCode
		ended <- final
	}()
	<-large
	_, final := collect(t, t.Context(), request(), func(_ context.Context, s *assemble.Stream) error {
		share := s.Share()
		defer share.Release()
		s.Finish(schemas.StopStop)
		return share.Hold(100 << 20)
	})
	if final.StopReason != schemas.StopStop {
		t.Errorf("the smaller reply ends with %s %q", final.StopReason, final.ErrorMessage)
	}
	if c, m := <-code, <-ended; c != schemas.FailureOverloaded || m.StopReason != schemas.StopError ||
		m.Content.JoinText() != "so far" {
		t.Errorf("the largest reply ends with %s, %s %q", c, m.StopReason, m.ErrorMessage)
	}
}

// A reply counts as JSON, as which a control character has six bytes: so it is in the log, and in each request after
// it.
func TestLimitsCountJSON(t *testing.T) {
	t.Parallel()
	for delta, most := range map[string]int{"x": 1200, "\x01": 200, `"`: 600} {
		for n, want := range map[int]schemas.StopReason{most: schemas.StopStop, most + 1: schemas.StopError} {
			req := request()
			req.Limits.Reply = 1200
			events, final := collect(t, t.Context(), req, func(_ context.Context, s *assemble.Stream) error {
				b := s.OpenText()
				for range n {
					b.Delta(delta)
				}
				s.Finish(schemas.StopStop)
				return nil
			})
			last := events[len(events)-1]
			if final.StopReason != want || (last.FailureCode == schemas.FailureTooLarge) != (want == schemas.StopError) {
				t.Errorf("%d times %q: %s %q", n, delta, final.StopReason, final.ErrorMessage)
			}
		}
	}
}
