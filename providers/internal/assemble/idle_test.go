package assemble_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loopbus/loopbus/providers/internal/assemble"
	"github.com/loopbus/loopbus/schemas"
)

// TestTheEndOfTheBodyIsNotAwaitedForLong has vendors that keep the response open after they have told why the reply
// ended. Each one waits for the end of the context, as a reader of the body does.
func TestTheEndOfTheBodyIsNotAwaitedForLong(t *testing.T) {
	t.Parallel()
	const idle = 40 * time.Second
	usage := schemas.Usage{Input: 3, Output: 9}
	for name, tc := range map[string]struct {
		play  func(s *assemble.Stream)
		idle  time.Duration
		waits time.Duration
		fails bool
	}{
		"with usage":      {func(s *assemble.Stream) { s.SetUsage(usage); s.Linger() }, idle, time.Second, false},
		"without usage":   {func(s *assemble.Stream) { s.Linger() }, idle, 10 * time.Second, false},
		"a shorter limit": {func(s *assemble.Stream) { s.Linger() }, 3 * time.Second, 3 * time.Second, false},
		"no limit":        {func(s *assemble.Stream) { s.Linger() }, -1, 10 * time.Second, false},
		"usage after a while": {func(s *assemble.Stream) {
			s.Linger()
			time.Sleep(6 * time.Second)
			s.SetUsage(usage)
		}, idle, 7 * time.Second, false},
		"heartbeats and repeated reasons": {func(s *assemble.Stream) {
			for range 6 {
				s.Linger()
				time.Sleep(1500 * time.Millisecond)
				s.Alive()
			}
		}, idle, 10 * time.Second, false},
		"a reason that comes too early": {func(s *assemble.Stream) {
			text := s.OpenText()
			s.Linger()
			time.Sleep(5 * time.Second)
			text.Delta("more")
			s.Linger()
		}, idle, 5*time.Second + idle, true},
		"a reason and usage with content": {func(s *assemble.Stream) {
			s.OpenText().Delta("some, with more behind it, perhaps")
			s.SetUsage(usage)
			s.Linger()
		}, idle, 10 * time.Second, false},
		"usage behind content and a reason": {func(s *assemble.Stream) {
			s.OpenText().Delta("all")
			s.Linger()
			time.Sleep(2 * time.Second)
			s.Alive()
			s.SetUsage(usage)
		}, idle, 3 * time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				req := request()
				req.IdleTimeout = tc.idle
				_, final := collect(t, t.Context(), req, func(ctx context.Context, s *assemble.Stream) error {
					tc.play(s)
					s.Finish(schemas.StopStop)
					<-ctx.Done()
					if cause := context.Cause(ctx); !errors.Is(cause, io.EOF) {
						return cause
					}
					return nil
				})
				if failed := final.StopReason == schemas.StopError; failed != tc.fails {
					t.Errorf("the reply ends with %s %q", final.StopReason, final.ErrorMessage)
				}
				if waited := time.Since(began); waited != tc.waits {
					t.Errorf("waited %s, want %s", waited, tc.waits)
				}
			})
		})
	}
}

// TestOnlyProgressKeepsAReply has vendors that send an event every four minutes, all of them without words.
func TestOnlyProgressKeepsAReply(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		event func(s *assemble.Stream, text *assemble.Block, n int)
		waits time.Duration // for ten hours if there is progress
	}{
		"heartbeats": {func(*assemble.Stream, *assemble.Block, int) {}, time.Hour + 4*time.Minute},
		"empty deltas": {func(_ *assemble.Stream, text *assemble.Block, _ int) { text.Delta("") },
			time.Hour + 4*time.Minute},
		"a signature": {func(_ *assemble.Stream, text *assemble.Block, _ int) { text.AddSignature("s") }, 10 * time.Hour},
		"blocks":      {func(s *assemble.Stream, _ *assemble.Block, _ int) { s.OpenThinking().End() }, 10 * time.Hour},
		"output tokens": {func(s *assemble.Stream, _ *assemble.Block, n int) {
			s.SetUsage(schemas.Usage{Output: int64(n)})
		}, 10 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				collect(t, t.Context(), request(), func(ctx context.Context, s *assemble.Stream) error {
					text := s.OpenText()
					for n := 1; ctx.Err() == nil && time.Since(began) < 10*time.Hour; n++ {
						s.Alive()
						tc.event(s, text, n)
						select {
						case <-time.After(4 * time.Minute):
						case <-ctx.Done():
						}
					}
					s.Finish(schemas.StopStop)
					return context.Cause(ctx)
				})
				if waited := time.Since(began); waited != tc.waits {
					t.Errorf("waited %s, want %s", waited, tc.waits)
				}
			})
		})
	}
}

// TestTheTotalIsAtLeastTheSum holds for servers that send no total, or one that leaves something out.
func TestTheTotalIsAtLeastTheSum(t *testing.T) {
	t.Parallel()
	for total, want := range map[int64]int64{0: 10, -1: 10, 7: 10, 12: 12} {
		_, final := collect(t, t.Context(), request(), func(_ context.Context, s *assemble.Stream) error {
			s.SetUsage(schemas.Usage{Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4, TotalTokens: total})
			s.Finish(schemas.StopStop)
			return nil
		})
		if final.Usage.TotalTokens != want {
			t.Errorf("a total of %d becomes %d, want %d", total, final.Usage.TotalTokens, want)
		}
	}
}
