package picture_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/loopbus/loopbus/tools/internal/picture"
)

// One picture is decoded at a time, and a call that ends does not wait any longer.
func TestTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := picture.NewTurns()
		end, err := turns.Take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancelled, next := make(chan error, 1), make(chan error, 1)
		go func() { _, err := turns.Take(ctx); cancelled <- err }()
		go func() { _, err := turns.Take(t.Context()); next <- err }()
		synctest.Wait()
		if len(cancelled) > 0 || len(next) > 0 {
			t.Fatal("they did not wait")
		}
		cancel()
		if err := <-cancelled; !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
		end()
		if err := <-next; err != nil {
			t.Errorf("next: %v", err)
		}
	})
}
