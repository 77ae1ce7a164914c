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
)

// ErrConflict is wrapped by an append that the log refused because another writer has extended the session. Whoever
// gets it has lost the session and must stop without another effect (docs/architecture.md). It is
// [schemas.ErrConflict].
var ErrConflict = schemas.ErrConflict

// A Log is what a driver needs of a session's log.
//
// Append gives the log the event with the next sequence. It may return before the event is stored; events are stored in
// the order of their sequences, and may gather until Send, which does not wait, has them stored as soon as may be.
// Flush does as Send, and returns once everything appended before is stored. An error of Append or Flush is final:
// nothing after the failed event is stored, and every later call returns it; but where the call's context has ended,
// Append has changed nothing, and Flush may be called again. An error wrapping [ErrConflict] means that another writer
// owns the session now.
//
// Confirm returns nil once it is known that no other writer had extended the session at the given moment or later: an
// event sent after it has been stored, or the log still ends where this one does. It sends what has gathered.
//
// The log owns the event from then on. All methods may be called concurrently.
type Log interface {
	Append(ctx context.Context, e schemas.Event) error
	Send()
	Flush(ctx context.Context) error
	Confirm(ctx context.Context, since time.Time) error
}

// A Model answers requests. The stream it returns follows [schemas.StreamEvent]: it ends with done or error. Whatever
// goes wrong with the vendor is an error event with stop reason error or aborted; an error yielded by the iterator, or
// a stream that ends without a terminal event, fails the whole run. The context is cancelled when the run is aborted;
// the stream should then end with an error event whose stop reason is aborted. Stream is called concurrently for
// different sessions.
type Model interface {
	Stream(ctx context.Context, req schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error]
}

// Tools dispatches tool calls to workers. Results come back as messages of the session's inbox, which
// [Driver.Handle] receives.
//
// Dispatch may be called again for a call that an earlier process dispatched: again is then true, and the
// implementation has to find out whether the call is already on its way or answered, and dispatch it only if it is
// neither. An error that wraps [schemas.ErrSubject] says that this call can never be dispatched; any other that it may
// have been or not. Cancel asks for a call to stop; it is no error if nobody runs it.
type Tools interface {
	Dispatch(ctx context.Context, req schemas.ToolRequest, again bool) error
	Cancel(ctx context.Context, session string, call schemas.CallKey, nonce string) error
}

// Withdrawer is an optional interface of [Tools] whose calls can wait for a worker. Withdraw removes a call that did
// not answer when it was cancelled, so that no worker begins it any more. It is no error if the call does not wait.
type Withdrawer interface {
	Withdraw(ctx context.Context, session string, call schemas.CallKey) error
}

// Budgets counts what the sessions of a profile use together. Add counts a reply's usage, once for each id; a reply has
// the same id whenever it is counted again. Spent returns what was used in the period that at is in. Both may be a
// moment behind.
type Budgets interface {
	Add(ctx context.Context, profile, id string, at time.Time, u schemas.Usage) error
	Spent(ctx context.Context, profile string, per schemas.BudgetPeriod, at time.Time) (tokens int64, cost float64,
		err error)
}

// An Outbox stores commands in the inboxes of other sessions. Store returns nil once the command is not lost any more;
// after an error it may be stored or not. A command with an id of before may be stored again. Holds reports whether a
// session's inbox has a command of a kind that is not settled; what was stored before the call counts.
type Outbox interface {
	Store(ctx context.Context, c schemas.Command) error
	Holds(ctx context.Context, session string, kind schemas.CommandKind) (bool, error)
}

// Live publishes the updates of a session. Update must not block for long; it may join an update with the next ones.
// Flush returns once everything given for the event is out: no delta follows the end of what it belongs to.
type Live interface {
	Update(ctx context.Context, u schemas.Update)
	Flush(ctx context.Context, session string, event uint64)
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

// Services asks the services that a run's hooks name (docs/hooks.md). Ask returns within the reference's time limit. An
// error says, for the log, why there is no answer.
type Services interface {
	Ask(ctx context.Context, to schemas.HookRef, req schemas.HookRequest) (schemas.HookAnswer, error)
}

// LostError says that a session's log did not store an event: the session is lost to this process. It wraps
// [ErrConflict] where another writer has it.
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

// Lost reports whether a driver has to be given up after this error: the log is lost, or a panic has left the state as
// nobody knows. Any other error is that of one delivery.
func Lost(err error) bool {
	var lost *LostError
	var panicked *panics.Error
	return errors.As(err, &lost) || errors.Is(err, ErrConflict) || errors.As(err, &panicked)
}

// Deps are what drivers work with, whatever the session: a host gives the same to each of them. Model is required, and
// so is Tools where calls are not executed in this process.
type Deps struct {
	Model  Model
	Tools  Tools
	Live   Live   // nil: nobody is shown updates
	Timers Timers // nil: no deadline survives the process
	Clock  Clock  // nil: [SystemClock]
	// Nonce makes what the ids of a call on the bus cannot be guessed without, one subject token; nil is random.
	Nonce func() string
	Hooks Hooks
	// Services are asked what the run's hooks name; nil cannot ask, so that every call that needs an answer is blocked.
	Services Services
	Budgets  Budgets      // nil counts nothing
	Outbox   Outbox       // nil: calls of the tool agent are as those of any other, and begin no session
	Tracer   Tracer       // nil: no traces
	Logger   *slog.Logger // nil: discarded
	Source   string       // CloudEvents source of the events, such as /loopbus/runner/<id>

	// OnEvent is called with every event and the state that has it, in order per session. It must not block, change
	// either of them, or keep the state: log and driver go on with them. A panic of it is logged.
	OnEvent func(e schemas.Event, s *loop.State)
	// Retryable says whether asking again may help after a failed reply whose model gave no [schemas.FailureCode];
	// nil never does. Where there is a code, the code decides. How often is for the run's retry policy to say.
	Retryable func(reply *schemas.AssistantMessage) bool

	IdleTimeout time.Duration // without a semantic event from the model; 0 is off
	AbortGrace  time.Duration // that running tools get to stop; 0 waits for ever
	// CallWindow is how many calls of one tool a session has dispatched at once ([loop.State.BeyondWindow]), so that a
	// session with a thousand calls does not starve the others; 0 is no limit. The other calls follow as results come.
	CallWindow int
}

// Options are what a [Driver] works with. Log and Configure are required.
type Options struct {
	Deps
	Log    Log
	Opened time.Time // when Log was opened: ownership was verified then; zero is when driving begins
	Rules  loop.Rules

	// Configure resolves what a run is driven with from the session's settings, which are the function's own. It is called
	// before each run, and again if a command has come in meanwhile.
	Configure func(ctx context.Context, session string, set loop.Settings) (schemas.RunConfig, error)
	// InputHooks names whom to ask about an input that waits, for sessions without a run too; nil asks nobody, and so does
	// one that panics.
	InputHooks func(ctx context.Context, session string, set loop.Settings) []schemas.HookRef
	// Expand returns what the text of an input stands for that asks for it ([schemas.Input]), and the files that it came
	// from, none for a text that stays as it is. An error fails the delivery; nil expands nothing.
	Expand func(ctx context.Context, session string, set loop.Settings, text string) (
		expanded string, sources []schemas.PromptSource, err error)
	// Path reads the way to an entry of the session from its log; an error that wraps [loop.ErrNoEntry] says that there is
	// no such entry. Nil can go nowhere.
	Path func(ctx context.Context, session, entry string) (*loop.Path, error)
	// PrepareArguments reshapes a call's raw arguments before they are validated; nil leaves them.
	PrepareArguments func(tool string, raw json.RawMessage) (json.RawMessage, error)
	// Execute executes calls in this process, in place of Tools; the driver then waits for the results instead of
	// resting. It is called concurrently, in goroutines of the driver; ctx is the run's signal, and update reports a
	// partial result. A panic becomes the call's error result.
	Execute func(ctx context.Context, req schemas.ToolRequest, update func(partial schemas.ToolResult)) (
		result schemas.ToolResult, isError bool)
	// Listen is called with the agent's events in their full shape and awaited; an error fails the run.
	Listen agentevent.Listener

	APIKey    string        // where GetAPIKey gives none
	SessionID func() string // sent to the model; nil: the session's id
	// FailHard returns an error of a hook or the model from Drive instead of ending the run with a failure message.
	FailHard bool
}
