// Package eventstoretest is the contract of package eventstore as a test suite. [Run] holds any store to it; a store
// that passes can stand in for any other.
package eventstoretest

import (
	"context"
	"iter"
	"time"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// Store is what the suite tests: what [eventstore.Store] and [eventstore.Memory] have in common.
type Store interface {
	Open(ctx context.Context, session string) (*eventstore.Log, error)
	Read(ctx context.Context, session string, from uint64) iter.Seq2[schemas.Event, error]
	At(ctx context.Context, session string, at time.Time) (seq uint64, err error)
	Sessions(ctx context.Context) iter.Seq2[eventstore.SessionInfo, error]
	Verify(ctx context.Context, session string, o eventstore.VerifyOptions) (eventstore.Report, error)
}
