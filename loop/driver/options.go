package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"time"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/agentevent"
	"github.com/loopbus/loopbus/loop/internal/panics"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/schemas/turns"
)

// ErrConflict is [schemas.ErrConflict]. An error of a [Log] wraps it when the log refused an append because another
// writer has extended the session: the caller has lost the session and must stop without another effect.
var ErrConflict = schemas.ErrConflict

// A Log is what a driver needs of a session's log.
//
// Append gives the log the event with the next sequence, which the log owns from then on. Append may return before the
// event is stored. The log stores events in the order of their sequences, and may gather them until Send or Flush is
// called. Send has the gathered events stored soon and does not wait. Flush sends them and returns once everything
// appended before is stored.
//
// An error of Append or Flush is final: the log stores nothing after the failed event, and every later call returns the
// error. The exception is an error because the call's context has ended: then Append has changed nothing, and Flush may
// be called again. An error that wraps [ErrConflict] means that another writer owns the session.
//
// Confirm returns nil once it is known that no other writer had extended the session at the given moment: an event sent
// after it has been stored, or the stored log still ends where this one does. Confirm sends what has gathered.
//
// Read yields the stored events from the given sequence (1 is the first), in order; an error is the last item.
//
// All methods may be called concurrently.
type Log interface {
	Append(ctx context.Context, e schemas.Event) error
	Send()
	Flush(ctx context.Context) error
	Confirm(ctx context.Context, since time.Time) error
	Read(ctx context.Context, from uint64) iter.Seq2[schemas.Event, error]
}

// A Model answers requests. Its stream follows [schemas.StreamEvent]: it ends with done or error. A failure of the
// vendor is an error event with stop reason error or aborted. An error yielded by the iterator, or a stream that ends
// without a terminal event, fails the whole run. The context is cancelled when the run is aborted; the stream should
// then end with an error event whose stop reason is aborted. Stream is called concurrently for different sessions.
type Model interface {
	Stream(ctx context.Context, req schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error]
}

// Tools dispatches tool calls to workers. Results come back as messages of the session's inbox, which [Driver.Handle]
// receives.
//
// Dispatch is called with again set for a call that an earlier process may have dispatched. The implementation then has
// to find out whether the call is queued, running or answered, and dispatches it only if it is none of these. An error
// that wraps [schemas.ErrSubject] or [schemas.ErrTooLarge] means that the call can never be dispatched; after any other
// error it may have been dispatched or not. Cancel asks the worker to stop a call; it is no error if none runs it.
type Tools interface {
	Dispatch(ctx context.Context, req schemas.ToolRequest, again bool) error
	Cancel(ctx context.Context, session string, call schemas.CallKey, nonce string) error
}

// Withdrawer is an optional interface of [Tools] whose calls can wait for a worker. Withdraw removes a call that did
// not answer its cancellation, so that no worker begins it later. It is no error if the call does not wait.
type Withdrawer interface {
	Withdraw(ctx context.Context, session string, call schemas.CallKey) error
}

// Holder is an optional interface of [Tools] whose calls can be lost. Holds reports whether a call that was dispatched
// is queued, running, or answered by a result that the session has yet to receive.
type Holder interface {
	Holds(ctx context.Context, req schemas.ToolRequest) (bool, error)
}

// Budgets counts what the sessions of a profile use together. Add counts a reply's usage once for each id; a reply that
// is counted again has the same id. Spent returns what was used in the budget period that contains at. Both may lag a
// moment behind.
type Budgets interface {
	Add(ctx context.Context, profile, id string, at time.Time, u schemas.Usage) error
	Spent(ctx context.Context, profile string, per schemas.BudgetPeriod, at time.Time) (tokens int64, cost float64,
		err error)
}

// An Outbox stores commands in the inboxes of other sessions. Store returns nil once the command is stored; after an
// error it may be stored or not, and the driver may store a command with the same id again. Holds reports whether a
// session's inbox has a command of a kind that is not settled; it sees everything stored before the call.
type Outbox interface {
	Store(ctx context.Context, c schemas.Command) error
	Holds(ctx context.Context, session string, kind schemas.CommandKind) (bool, error)
}

// Live publishes the updates of a session. Update must not block for long; it may join an update with later ones. Flush
// returns once all updates of the event are published, so that no delta follows the end of its message.
type Live interface {
	Update(ctx context.Context, u schemas.Update)
	Flush(ctx context.Context, session string, event uint64)
}

// Timers deliver a timer message to a session's inbox at a given time, even if all processes restart before. Schedule
// replaces a timer of the same name.
type Timers interface {
	Schedule(ctx context.Context, session string, at time.Time, timer schemas.Timer) error
	Cancel(ctx context.Context, session string, name string) error
}

// A Clock returns the time and runs functions later. stop reports whether it prevented f from running.
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

// Services asks the hook services that a run names (docs/hooks.md). Ask returns within the time limit of the reference.
// An error says why the service gave no answer; it is recorded in the decision.
type Services interface {
	Ask(ctx context.Context, to schemas.HookRef, req schemas.HookRequest) (schemas.HookAnswer, error)
}

// LostError means that the log did not store an event of a session: this process has lost the session. It wraps
// [ErrConflict] if another writer owns the session.
type LostError struct {
	Session string
	Seq     uint64
	Err     error
}

// Error names the session and the sequence.
func (e *LostError) Error() string {
	return fmt.Sprintf("append %s/%d: %v", e.Session, e.Seq, e.Err)
}

// Unwrap returns the log's error.
func (e *LostError) Unwrap() error { return e.Err }

// Lost reports whether a driver must be given up after err: its log is lost, or a panic has left its state unknown. Any
// other error fails one delivery only.
func Lost(err error) bool {
	var lost *LostError
	var panicked *panics.Error
	return errors.As(err, &lost) || errors.Is(err, ErrConflict) || errors.As(err, &panicked)
}

// Deps are what drivers work with for any session: a host gives the same Deps to all its drivers. Model is required,
// and Tools unless [Options].Execute is set.
type Deps struct {
	Model  Model
	Tools  Tools
	Live   Live   // publishes updates; nil publishes none
	Timers Timers // nil: no deadline survives the process
	Clock  Clock  // nil: [SystemClock]
	// Nonce returns the secret part of a call's subjects on the bus: one subject token, without which the call's ids
	// cannot be guessed. Nil makes random ones.
	Nonce func() string
	Hooks Hooks
	// Services asks the services that a run's hooks name. With nil no service answers, so calls that need an answer are
	// blocked.
	Services Services
	Budgets  Budgets      // nil: no profile has a budget
	Outbox   Outbox       // nil: the tool agent is a tool like any other and begins no session
	Tracer   Tracer       // nil: no traces
	Logger   *slog.Logger // nil: discarded
	Source   string       // CloudEvents source of the events, such as /loopbus/runner/<id>

	// OnEvent is called with every event and the state after it, in order for each session. It must not block, change
	// either of them, or keep the state. A panic of it is logged.
	OnEvent func(e schemas.Event, s *loop.State)
	// Retryable reports whether a retry may help after a failed reply that has no [schemas.FailureCode]; nil: never. If
	// the reply has a code, the code decides. The run's retry policy limits the number of retries.
	Retryable func(reply *schemas.AssistantMessage) bool

	IdleTimeout time.Duration // longest a model call may go without a semantic event; 0 is no limit
	AbortGrace  time.Duration // time that cancelled tools get to stop; 0 waits for ever
	// CallWindow is how many calls of one tool a session may have dispatched at once, with 1 MiB of arguments
	// ([loop.State.BeyondWindow]), so that a session with a thousand calls does not starve other sessions; 0 is no
	// limit. Further calls follow as results arrive.
	CallWindow int
}

// Options are the settings of a [Driver]. Log and Configure are required.
type Options struct {
	Deps
	Log    Log
	Opened time.Time // when Log was opened, which verified ownership; zero: when driving begins
	Rules  loop.Rules

	// Configure returns the configuration of a run from the session's settings, which the function may keep. It is called
	// before each run, and again if a command arrives while it runs.
	Configure func(ctx context.Context, session string, set loop.Settings) (schemas.RunConfig, error)
	// InputHooks names the services to ask about an input that waits, and about what else happens without a run. The
	// session is the one that is copied where that is decided. Nil names none; a panic counts as none.
	InputHooks func(ctx context.Context, session string, set loop.Settings) []schemas.HookRef
	// Expand expands the text of an input that requests it ([schemas.Input]). sources are the files that the expansion
	// came from, none if the text stays as it is. An error fails the delivery; nil expands nothing.
	Expand func(ctx context.Context, session string, set loop.Settings, text string) (
		expanded string, sources []schemas.PromptSource, err error)
	// Loads bounds the large parts of logs that are read again at once; nil lets all be read.
	Loads *turns.Loads
	// Path reads the path to an entry of the session from its log. Its error wraps [loop.ErrNoEntry] if there is no such
	// entry. With nil every navigation is rejected. The driver ends the load of ctx once it has stored the path.
	Path func(ctx context.Context, session, entry string) (*loop.Path, error)
	// Room is called before services are asked about an input or a message, when one has answered at length, and before a
	// run, a call of a model, a summary and calls of tools, with what the session takes in memory. Its error fails the
	// delivery, so that the session is not in memory while it waits; nil gives all the room. It may be called
	// concurrently.
	Room func(bytes int) error
	// Hurry, if not nil, is called when the AbortGrace of cancelled tools begins, with a function that ends it.
	Hurry func(end func())
	// PrepareArguments reshapes a call's raw arguments before they are validated; nil leaves them as they are.
	PrepareArguments func(tool string, raw json.RawMessage) (json.RawMessage, error)
	// Execute executes calls in this process, in place of Tools. The driver then waits for the results instead of
	// resting. Execute is called concurrently, in goroutines of the driver; ctx is the run's abort signal, and update
	// reports a partial result. A panic becomes the call's error result.
	Execute func(ctx context.Context, req schemas.ToolRequest, update func(partial schemas.ToolResult)) (
		result schemas.ToolResult, isError bool)
	// Listen is called with the agent's events in their full shape, and the driver waits for it. An error fails the run.
	Listen agentevent.Listener

	// FailHard makes Drive return an error of a hook or the model instead of ending the run with a failure message.
	FailHard bool
}
