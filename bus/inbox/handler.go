package inbox

import (
	"context"

	"github.com/loopbus/loopbus/schemas"
)

// A Handler carries out the commands of the inbox. Its methods are called for many sessions at once.
//
// The context of a delivery is cancelled with the cause [ErrMoved] when another runner may have the session, and with
// [ErrStopped] when the delivery has not returned in [Options.StopTimeout] after the inbox was asked to stop.
type Handler interface {
	// Deliver carries out a command. Commands of a session are delivered in the order of the queue, one at a time: the
	// next is delivered when Deliver calls entered, which means that the command is in the session's log, or returns. An
	// abort overtakes, after half a second, what starts no run. A command that an abort waits behind has its priority
	// (package priority): Deliver should store it, call entered, and return an error that wraps [schemas.ErrLater].
	// The command stays in the queue until Deliver returns. So Deliver should return once the session is at rest or,
	// for a command that does not wake the session, once the command is in the log.
	//
	// Nil acknowledges the command. After an error it is delivered again after a growing pause. Errors are logged,
	// except those that wrap [schemas.ErrConflict] or [context.Canceled]: they mean that another runner has to carry
	// the command out, or this one later. Delivery is at least once: a command may be delivered again although it was
	// carried out. The inbox drops the content of a large input or result once entered is called.
	Deliver(ctx context.Context, cmd schemas.Command, entered func()) error
	// Hold waits until there is memory for a session, and has it ready for a command: Deliver gets the context that Hold
	// returns. The inbox calls it for large commands, and calls release when Deliver has returned. Hold calls waits before
	// it may have to wait: the command is not in memory from then on. Errors are those of Deliver.
	Hold(ctx context.Context, session string, waits func()) (holding context.Context, release func(), err error)
	// Reject records that a message was rejected: it is no command, or was given up after too many attempts. It is
	// called only if the message's session id is legal. After an error it is called again.
	Reject(ctx context.Context, session string, r schemas.CommandRejected) error
	// Owns returns nil if no other runner has extended the log of a session at work, and a [schemas.ConflictError] if
	// one has. Any other error means that this is not known. The inbox calls it now and then, and after it has lost its
	// consumer. A session that is not owned is cancelled and delivered again; so is, after a lost consumer, one of
	// which it is not known.
	Owns(ctx context.Context, session string) error
	// Absent reports whether a session has no log; it returns false if that is not known. Results of tools mean nothing
	// without a log: the inbox acknowledges them undelivered and keeps no dead letter.
	Absent(ctx context.Context, session string) bool
}
