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

// Log is the log of a session as the suite uses it: what [eventstore.Log] has.
type Log interface {
	Append(ctx context.Context, e schemas.Event) error
	Send()
	Flush(ctx context.Context) error
	Confirm(ctx context.Context, since time.Time) error
	Read(ctx context.Context, from uint64) iter.Seq2[schemas.Event, error]
	Snapshot(ctx context.Context, version int) (state []byte, seq uint64, err error)
	SaveSnapshot(ctx context.Context, version int, seq uint64, state []byte) error
	Close()
}

// Reader is what a store offers without an open log.
type Reader interface {
	Read(ctx context.Context, session string, from uint64) iter.Seq2[schemas.Event, error]
	At(ctx context.Context, session string, at time.Time) (seq uint64, err error)
	Sessions(ctx context.Context) iter.Seq2[eventstore.SessionInfo, error]
	Verify(ctx context.Context, session string, o eventstore.VerifyOptions) (eventstore.Report, error)
}

// Store is what the suite tests. [Of] makes one of a store whose Open returns a concrete type.
type Store interface {
	Reader
	Open(ctx context.Context, session string) (Log, error)
}

// Opener is a store as it is written: Open returns its own type of log.
type Opener[L Log] interface {
	Reader
	Open(ctx context.Context, session string) (L, error)
}

// Of returns a concrete store as a [Store].
func Of[L Log](s Opener[L]) Store { return adapter[L]{s, s} }

type adapter[L Log] struct {
	Reader
	opener Opener[L]
}

func (a adapter[L]) Open(ctx context.Context, session string) (Log, error) {
	l, err := a.opener.Open(ctx, session)
	if err != nil {
		return nil, err
	}
	return l, nil
}
