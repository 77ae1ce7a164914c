package inbox

import (
	"context"

	"github.com/loopbus/loopbus/schemas"
)

// A Handler takes what arrives in the inbox.
//
// Deliver is called with the commands of a session in the order of the queue, one at a time until it calls entered,
// which says that the command is stored and the next may come; returning says so too. It is called for many sessions at
// once. While it runs the command stays in the queue, so Deliver should return only once the session is at rest, or for
// a command that does not wake it, once it is in the log. Nil acknowledges the command; after an error it is delivered
// again after a growing pause. Delivery is at least once: a command may come again although it was taken. Errors are
// logged, but for those that wrap [schemas.ErrConflict] or [context.Canceled]: they mean that another runner, or a
// later one, is to have the command.
//
// Reject is told of a message that is no command of a session whose id is legal, or that was given up after too many
// attempts. An error has it delivered again.
//
// The context ends when another runner reads the partition, its cause is then [ErrMoved]; or when the inbox has waited
// [Options.StopTimeout] for a command after it was asked to stop, its cause is then [ErrStopped].
type Handler interface {
	Deliver(ctx context.Context, cmd schemas.Command, entered func()) error
	Reject(ctx context.Context, session string, r schemas.CommandRejected) error
}

// Owner is an optional interface of a [Handler]. Owns returns nil if a session that it is at work on is still its own:
// no other runner has extended its log. If one has, the error is a [schemas.ConflictError], and the work is given up
// and begun anew. The inbox asks now and then, and under a time limit after it has lost its consumer and another runner
// may have read the partition: then the work is given up without an answer, too.
type Owner interface {
	Owns(ctx context.Context, session string) error
}
