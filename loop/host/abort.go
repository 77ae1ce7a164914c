package host

import (
	"context"
	"fmt"
	"sync"

	"github.com/loopbus/loopbus/schemas"
)

// errAbortedOnly is the error of a session that was loaded to be aborted, and then has more to do than that.
var errAbortedOnly = fmt.Errorf("the room to abort it is not for calls of models: %w", schemas.ErrLater)

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
