package host

import (
	"context"
	"fmt"
	"sync"

	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/schemas"
)

// errAbortedOnly is the error of a session that was loaded to be aborted, and then has more to do than that.
var errAbortedOnly = fmt.Errorf("the room to abort it is not for calls of models: %w", schemas.ErrLater)

// errStoredFirst is the error of a delivery that an abort waits behind, once its command is in the log.
var errStoredFirst = fmt.Errorf("the command is stored, and is carried out when the abort behind it was: %w",
	schemas.ErrLater)

// storeFirst stores a command that an abort waits behind, in a session that was loaded to be aborted. It is carried out
// when it is delivered again, if the abort has left anything of it.
func storeFirst(ctx context.Context, d *driver.Driver, c schemas.Command) error {
	if _, err := d.Accept(ctx, c); err != nil {
		return err
	}
	if err := d.Flush(ctx); err != nil {
		return err
	}
	return errStoredFirst
}

// abort is what happens to an entry that is to be aborted. Such a delivery does not wait until there is room for the
// session to go on: its run would not end, and its tools would go on, as long as the models of others are slow.
type abort struct {
	send   func() // closes sent
	sent   chan struct{}
	store  func() // closes stored
	stored chan struct{}
	only   bool // the entry was loaded to be aborted: other deliveries wait until the abort is stored
}

func newAbort() abort {
	sent, stored := make(chan struct{}), make(chan struct{})
	return abort{
		send: sync.OnceFunc(func() { close(sent) }), sent: sent,
		store: sync.OnceFunc(func() { close(stored) }), stored: stored,
	}
}

type abortKey struct{}

// abortive returns the context of a delivery that aborts a session.
func abortive(ctx context.Context) context.Context { return context.WithValue(ctx, abortKey{}, true) }

func isAbortive(ctx context.Context) bool { return ctx.Value(abortKey{}) != nil }

// aborts reports whether a command aborts its session.
func aborts(c schemas.Command) bool {
	switch c.Data.(type) {
	case *schemas.Abort, *schemas.SubagentAbort:
		return true
	}
	return false
}
