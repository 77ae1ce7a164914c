package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus"
)

// connectTimeout limits how long a server that accepts connections may take to answer.
const connectTimeout = 5 * time.Second

// errDenied is the cause of a context that [Connection.Look] cancels.
var errDenied = errors.New("a permission is missing")

// Look connects like [Connection.Bus] and calls use with the connection. If the server denies a subject, Look cancels
// the context of use and returns the violation: the server does not answer such requests, which would otherwise time
// out or be retried.
func (o *Connection) Look(ctx context.Context, name string, log *slog.Logger,
	use func(context.Context, *bus.Conn) error,
) error {
	connecting, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := o.Bus(connecting, name, log)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	for _, nc := range []*nats.Conn{conn.NATS(), conn.Events().Conn()} {
		logged := nc.ErrorHandler()
		nc.SetErrorHandler(func(nc *nats.Conn, sub *nats.Subscription, err error) {
			if errors.Is(err, nats.ErrPermissionViolation) {
				end(fmt.Errorf("%w: %w", errDenied, err))
				return
			}
			logged(nc, sub, err)
		})
	}
	err = use(ctx, conn)
	if cause := context.Cause(ctx); errors.Is(cause, errDenied) {
		return cause
	}
	return err
}
