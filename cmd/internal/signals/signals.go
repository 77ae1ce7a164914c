// Package signals cancels a command's context when the process receives a signal.
package signals

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Received is the cause of a context that a signal cancelled.
type Received struct{ Signal os.Signal }

// Error names the signal.
func (r Received) Error() string { return fmt.Sprintf("%s signal received", r.Signal) }

// Status returns the exit status that shells report for the signal: 128 plus its number.
func (r Received) Status() int {
	if n, ok := r.Signal.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return 1
}

// Context returns a context that the first interrupt or SIGTERM cancels, with a [Received] as its cause. From then
// on, a second signal kills the process at once; [signal.NotifyContext] would ignore one that arrives shortly after
// the first.
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
