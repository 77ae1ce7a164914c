// Package signals ends a command when it is told to stop.
package signals

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// Context returns a context that the first interrupt or SIGTERM ends, with the signal as its cause. By then a second
// one kills the process: what [signal.NotifyContext] gives would swallow it for a moment after the first.
func Context() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		s := <-signals
		signal.Stop(signals)
		cancel(fmt.Errorf("%s signal received", s))
	}()
	return ctx
}
