package bus

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestAQuestionIsAskedAgain(t *testing.T) {
	errAPI := errors.New("no leader")
	lost := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	for name, c := range map[string]struct {
		ask  func(ctx context.Context, n int) error
		took time.Duration
		want error
	}{
		"at once": {func(context.Context, int) error { return nil }, 0, nil},
		"the first one is lost": {func(ctx context.Context, n int) error {
			if n == 1 {
				return lost(ctx)
			}
			return nil
		}, firstLook, nil},
		"no leader for a moment": {func(_ context.Context, n int) error {
			if n < 3 {
				return errAPI
			}
			return nil
		}, 3 * firstLook, nil},
		"never": {func(ctx context.Context, _ int) error { return lost(ctx) }, lookTimeout, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), lookTimeout)
				defer cancel()
				begun, n := time.Now(), 0
				err := untilAnswered(ctx, firstLook, func(ctx context.Context) error { n++; return c.ask(ctx, n) })
				if took := time.Since(begun); !errors.Is(err, c.want) || took != c.took {
					t.Errorf("%v after %s, want %v after %s", err, took, c.want, c.took)
				}
			})
		})
	}
}
