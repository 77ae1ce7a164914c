package natsio

import (
	"context"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/schemas/turns"
)

// maxRequested is how many bytes the readers of a connection may have requested together and not received. A server
// ends a connection for which it has more than 64 MiB (its max_pending) to write, and with it the work of all others on
// it.
const maxRequested = 32 << 20

var requested = turns.New[*nats.Conn](maxRequested)

// Reserve waits until a reader may request an answer of up to n bytes on a connection. The reader calls release once it
// has received the answer, and must not wait for anything else before. The limit of time for the answer begins then,
// not before: who loses a turn to it may never get one. To call release again does nothing. The error is that of ctx.
func Reserve(ctx context.Context, nc *nats.Conn, n int) (release func(), err error) {
	return requested.Wait(ctx, nc, n)
}
