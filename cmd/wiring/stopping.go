package wiring

import (
	"context"
	"errors"
	"time"

	"github.com/loopbus/loopbus/bus/inbox"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/schemas"
)

// ErrOver is the cause for stopping a runner that was started for one run, when that run has ended. Its session gets
// a moment to come to rest, so that nothing of it is redelivered.
var ErrOver = errors.New("the run is over")

// restTime limits how long a session may take to come to rest after [ErrOver].
const restTime = time.Second

// stopping releases sessions at once when the runner is asked to stop: their drivers stop without another effect, and
// their messages return to the queue for the next runner.
type stopping struct {
	host *host.Host
	stop context.Context
}

func (h *stopping) Deliver(ctx context.Context, c schemas.Command, entered func()) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(h.stop, func() {
		if errors.Is(context.Cause(h.stop), ErrOver) {
			select {
			case <-ctx.Done():
			case <-time.After(restTime):
			}
		}
		cancel(driver.ErrStopped)
	})()
	return h.host.Deliver(ctx, c, entered)
}

func (h *stopping) Hold(ctx context.Context, session string, waits func()) (context.Context, func(), error) {
	return h.host.Hold(ctx, session, waits)
}

func (h *stopping) Owns(ctx context.Context, session string) error { return h.host.Owns(ctx, session) }

func (h *stopping) Absent(ctx context.Context, session string) bool {
	return h.host.Absent(ctx, session)
}

func (h *stopping) Reject(ctx context.Context, session string, r schemas.CommandRejected) error {
	return h.host.Reject(ctx, session, r)
}

var _ inbox.Handler = (*stopping)(nil)
