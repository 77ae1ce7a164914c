package natsio

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Fetch requests up to n messages from a consumer, of up to limit bytes together, until ctx ends. It returns
// [context.DeadlineExceeded] for a deadline that has passed, for which nats.go returns ErrInvalidOption until the timer
// of ctx has fired.
func Fetch(ctx context.Context, c jetstream.Consumer, n, limit int) (jetstream.MessageBatch, error) {
	batch, err := c.Fetch(n, jetstream.FetchContext(ctx), jetstream.FetchMaxBytes(limit))
	if deadline, ok := ctx.Deadline(); errors.Is(err, jetstream.ErrInvalidOption) && ok && time.Until(deadline) <= 0 {
		return nil, context.DeadlineExceeded
	}
	return batch, err
}
