// Package signals ends a command when it is asked to stop.
package signals

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Received is the cause of a context that a signal has ended.
type Received struct{ Signal os.Signal }

// Error names the signal.
func (r Received) Error() string { return fmt.Sprintf("%s signal received", r.Signal) }

// Status is what shells report of a process that the signal has ended: 128 and its number.
func (r Received) Status() int {
	if n, ok := r.Signal.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return 1
}

// Context returns a context that the first interrupt or SIGTERM ends, with a [Received] as its cause. By then a second
// one kills the process: what [signal.NotifyContext] gives would swallow it for a moment after the first.
func Context() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		s := <-signals
		signal.Stop(signals)
		cancel(Received{s})
	}()
	return ctx
}
