package assemble_test

import (
	"context"
	"runtime"
	"strings"
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
			if err := share.Hold(100 << 20); err != nil {
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
		return share.Hold(50 << 20)
	})
	if final.StopReason != schemas.StopStop {
		t.Errorf("the smaller reply ends with %s %q", final.StopReason, final.ErrorMessage)
	}
	if c, m := <-code, <-ended; c != schemas.FailureOverloaded || m.StopReason != schemas.StopError ||
		m.Content.JoinText() != "so far" {
		t.Errorf("the largest reply ends with %s, %s %q", c, m.StopReason, m.ErrorMessage)
	}
}

// A reply that has to release its memory does not go on in the message about that: hundreds may be asked for again, and
// each attempt would stay in memory.
func TestALargeReplyThatMakesRoomHasNoContent(t *testing.T) {
	for _, size := range []int{80 << 10, 3 << 20} {
		_, final := collect(t, t.Context(), request(), func(_ context.Context, s *assemble.Stream) error {
			for range 3 {
				s.OpenToolCall("c", "echo").Delta(`{"v":"` + strings.Repeat("x", size/3))
			}
			share := s.Share()
			defer share.Release()
			return share.Hold(300 << 20)
		})
		if final.StopReason != schemas.StopError || len(final.Content) > 0 {
			t.Errorf("%d bytes end with %s and %d contents", size, final.StopReason, len(final.Content))
		}
	}
}

// The arguments of a call are in memory once when it has ended, also while the reply goes on.
func TestArgumentsAreKeptOnce(t *testing.T) { // not parallel: it measures the heap
	const size, calls = 3 << 20, 5
	held := func() int {
		for range 2 {
			runtime.GC()
		}
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	before := held()
	for e, err := range assemble.Run(t.Context(), request(), func(_ context.Context, s *assemble.Stream) error {
		for range calls {
			b := s.OpenToolCall("c", "echo")
			b.Delta(`{"v":"` + strings.Repeat("x", size) + `"}`)
			b.End()
		}
		if n := held() - before; n > (calls+1)*size {
			t.Errorf("%d calls of %d bytes take %d", calls, size, n)
		}
		s.Finish(schemas.StopToolUse)
		return nil
	}) {
		if err != nil || e.Type == schemas.StreamError {
			t.Error(err, e.Message)
		}
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
