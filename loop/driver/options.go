package driver

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/agentevent"
	"github.com/loopbus/loopbus/schemas"
)

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
