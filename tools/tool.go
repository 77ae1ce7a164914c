package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// ErrAborted is what a tool returns when its context was cancelled and it has nothing better to say.
var ErrAborted error = Failure("Operation aborted")

// A Failure is an error whose text is written for a model, and shown to it as it is.
type Failure string

// Error is the text.
func (f Failure) Error() string { return string(f) }

// Failf formats a [Failure].
func Failf(format string, args ...any) error { return Failure(fmt.Sprintf(format, args...)) }

// A Tool is a definition and what carries it out.
//
// Execute carries out a call whose arguments satisfy Parameters. It may be called concurrently. It returns soon after
// its context is cancelled. Its error becomes an error result with the error's text. Tools of this program are best
// made with [Typed].
type Tool struct {
	schemas.ToolDefinition
	Execute func(ctx context.Context, call Call) (schemas.ToolResult, error)
}

// A Call is one request to run a tool. IdempotencyKey is the same for every attempt at the call; tools with effects
// outside should hand it on.
type Call struct {
	Session        string
	RunID          string
	TurnID         string
	Key            schemas.CallKey
	ID             string // the model's own id of the call
	Arguments      json.RawMessage
	IdempotencyKey string
	// NoSession says that the caller has no session of a runner, such as an MCP client; Session is a name of its own.
	NoSession bool

	update func(schemas.ToolResult)
}

// Update sends a partial result to the watchers of the call, which replaces the one before. It may be called from any
// goroutine, but by one at a time. After the tool has returned, and where nobody listens, it does nothing.
func (c Call) Update(partial schemas.ToolResult) {
	if c.update != nil {
		c.update(partial)
	}
}

// Run executes a call and always has a result: an error becomes one with its text ([ResultOf]), and so does a panic.
// Updates that come after the end are dropped. A nil update is allowed.
func (t Tool) Run(ctx context.Context, call Call, update func(schemas.ToolResult)) (result schemas.ToolResult,
	isError bool) {
	return ResultOf(t.Try(ctx, call, update))
}

// Try is [Tool.Run] for callers that want the error itself. A panic is a [PanicError].
func (t Tool) Try(ctx context.Context, call Call, update func(schemas.ToolResult)) (_ schemas.ToolResult, err error) {
	gate := &gate{update: update}
	defer gate.close()
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{Tool: t.Name, Value: p, Stack: debug.Stack()}
		}
	}()
	call.update = gate.pass
	return t.Execute(ctx, call)
}

// ResultOf makes the result a model is shown of what a tool returned.
func ResultOf(result schemas.ToolResult, err error) (_ schemas.ToolResult, isError bool) {
	if err != nil {
		return schemas.ErrorResult(errorText(err)), true
	}
	return result, false
}

// errorText gives what came from a cancelled context, and not from the tool, the text that models know.
func errorText(err error) string {
	if err == context.Canceled { //nolint:errorlint // a wrapped one has a text of its own
		return ErrAborted.Error()
	}
	return err.Error()
}

// A PanicError is the error of a tool that panicked. Its text leaves out the stack, which is for logs.
type PanicError struct {
	Tool  string
	Value any
	Stack []byte
}

// Error says that the tool panicked, and with what.
func (e *PanicError) Error() string { return fmt.Sprintf("Tool %s panicked: %v", e.Tool, e.Value) }

// A TimeLimitError is the cause of a context that was cancelled because a call took longer than it may.
type TimeLimitError struct{ Limit time.Duration }

// Error says how long the call was allowed to take.
func (e *TimeLimitError) Error() string {
	return "Tool timed out after " + Seconds(e.Limit.Seconds()) + " seconds"
}

// DefaultReadTimeout is the time limit of the built-in tools that only read, unless their worker sets another.
// It leaves room for a search through 5 GB in 127,000 files that no memory holds, which took 73 s. What takes longer
// hangs in a file system that does not answer, or is better asked for in a smaller directory.
const DefaultReadTimeout = 2 * time.Minute

// Seconds writes a number of seconds as briefly as it can be read back.
func Seconds(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// Interrupted returns why a cancelled context was cancelled, as a tool should report it: a [TimeLimitError], or
// [ErrAborted]. It returns nil while the context is alive.
func Interrupted(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	var limit *TimeLimitError
	if errors.As(context.Cause(ctx), &limit) {
		return limit
	}
	return ErrAborted
}

// gate lets updates through until it is closed.
type gate struct {
	mu     sync.Mutex
	update func(schemas.ToolResult)
}

func (g *gate) pass(r schemas.ToolResult) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.update != nil {
		g.update(r)
	}
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.update = nil
}
