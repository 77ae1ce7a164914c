package driver

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// ErrConflict is wrapped by an append that the log refused because another writer has extended the session. Whoever
// gets it has lost the session and must stop without another effect (docs/architecture.md). It is [schemas.ErrConflict].
var ErrConflict = schemas.ErrConflict

// A Log is what a driver needs of a session's log.
//
// Append hands over the event with the next sequence. It may return before the event is stored; events are stored in
// the order they are handed over. Flush returns once everything handed over before is stored. An error of either is
// final: nothing after the failed event is stored, and every later call returns it. An error wrapping [ErrConflict]
// means that another writer holds the session now.
//
// Confirm returns nil once it is known that no other writer had extended the session at the given moment or later: an
// event sent after it has been stored, or the log still ends where this one does.
//
// The log owns the event from then on. All methods may be called concurrently.
type Log interface {
	Append(ctx context.Context, e schemas.Event) error
	Flush(ctx context.Context) error
	Confirm(ctx context.Context, since time.Time) error
}

// A SessionLog is a [Log] that can also be read: what a [Host] needs to take up a session.
//
// Read yields the events from sequence from (1 is the first) up to the head the log was opened at, in order; an error
// is the last thing yielded. Snapshot returns the newest state saved under the fold version, and the sequence it is
// of; seq is 0 if there is none. SaveSnapshot may fail without harm. Close gives up what the log holds; it does not
// wait for appends.
type SessionLog interface {
	Log
	Read(ctx context.Context, from uint64) iter.Seq2[schemas.Event, error]
	Snapshot(ctx context.Context, version int) (state []byte, seq uint64, err error)
	SaveSnapshot(ctx context.Context, version int, seq uint64, state []byte) error
	Close()
}

// OpenLog opens the log of a session at its head. A session that has no events yet opens empty.
type OpenLog func(ctx context.Context, session string) (SessionLog, error)

// A Model answers requests. The stream it returns follows [schemas.StreamEvent]: it ends with done or error. Whatever
// goes wrong with the vendor is an error event with stop reason error or aborted; an error yielded by the iterator, or a
// stream that ends without a terminal event, fails the whole run. The context is cancelled when the run is aborted; the stream should then
// end with an error event whose stop reason is aborted. Stream is called concurrently for different sessions.
type Model interface {
	Stream(ctx context.Context, req schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error]
}

// Tools hands tool calls over to whoever executes them. Results come back through [Driver.Deliver] or, on a bus, the
// session's inbox.
//
// Dispatch may be called again for a call that was handed over by an earlier process: again is then true, and the
// implementation has to find out whether the call is already on its way or answered, and hand it over only if it is
// neither. An error that wraps [schemas.ErrSubject] says that this call can never be handed over; any other that it may
// have been or not. Cancel asks for a call to stop; it is no error if nobody runs it.
type Tools interface {
	Dispatch(ctx context.Context, req schemas.ToolRequest, again bool) error
	Cancel(ctx context.Context, session string, call schemas.CallKey) error
}

// A Withdrawer is what [Tools] may be besides, where a call can wait for somebody to execute it. Withdraw takes back a call
// that did not answer when it was cancelled, so that nobody begins it any more. It is no error if the call does not wait.
type Withdrawer interface {
	Withdraw(ctx context.Context, session string, call schemas.CallKey) error
}

// A Toolbox tells which tools there are: one definition per tool and workspace. The order is that in which a model is told of
// them.
type Toolbox interface {
	Definitions(ctx context.Context) ([]schemas.ToolDefinition, error)
}

// Profiles tells what the named agents are. Profile returns an error that wraps [ErrNoProfile] where there is none of that
// name.
type Profiles interface {
	Profile(ctx context.Context, name string) (schemas.Profile, error)
}

// ErrNoProfile says that there is no profile of a name.
var ErrNoProfile = errors.New("no such profile")

// Budgets counts what the sessions of a profile use together. Add is told of a reply's usage, under an id that is the same
// whenever it is told again; Spent returns what was used in the period that at is in. Both may be a moment behind.
type Budgets interface {
	Add(ctx context.Context, profile, id string, at time.Time, u schemas.Usage) error
	Spent(ctx context.Context, profile string, per schemas.BudgetPeriod, at time.Time) (tokens int64, cost float64, err error)
}

// Live takes the updates of a session. Update must not block for long; it may join an update with the next ones.
// Settle returns once everything given for the event is out: no delta follows the end of what it belongs to.
type Live interface {
	Update(ctx context.Context, u schemas.Update)
	Settle(ctx context.Context, session string, event uint64)
}

// Timers wake a session at a moment, also after a restart of everything. Schedule replaces a timer of the same name.
type Timers interface {
	Schedule(ctx context.Context, session string, at time.Time, timer schemas.Timer) error
	Cancel(ctx context.Context, session string, name string) error
}

// A Clock tells the time and runs functions later. Stop reports whether it prevented f from running.
type Clock interface {
	Now() time.Time
	AfterFunc(d time.Duration, f func()) (stop func() bool)
}

// SystemClock is the machine's own clock.
type SystemClock struct{}

// Now returns time.Now.
func (SystemClock) Now() time.Time { return time.Now() }

// AfterFunc is time.AfterFunc.
func (SystemClock) AfterFunc(d time.Duration, f func()) func() bool { return time.AfterFunc(d, f).Stop }
