package system

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus/bustest"
)

// Deadline is how long a test waits for an event that has to happen.
const Deadline = 90 * time.Second

// Eventually waits until ok returns true.
func Eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	bustest.Eventually(tb, what, ok)
}

// Serve runs f until stop is called or the test ends, and waits until it returns. An error of f fails the test.
func Serve(tb testing.TB, f func(ctx context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			tb.Error(err)
		}
	})
	tb.Cleanup(stop)
	return stop
}
