package natsio

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

// maxRequested is how many bytes the readers of a process may have requested together and not received. A server ends
// a connection for which it has more than 64 MiB (its max_pending) to write, and with it the work of all others on it.
const maxRequested = 32 << 20

var requested = semaphore.NewWeighted(maxRequested)

// Reserve waits until a reader may request an answer of up to n bytes. The reader calls release once it has received
// the answer, and must not wait for anything else before. To call release again does nothing. The error is that of ctx.
func Reserve(ctx context.Context, n int) (release func(), err error) {
	weight := int64(min(n, maxRequested))
	if err := requested.Acquire(ctx, weight); err != nil {
		return nil, err
	}
	return sync.OnceFunc(func() { requested.Release(weight) }), nil
}
