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

// ErrAborted is the error of a tool whose context was cancelled and that has no more specific error.
var ErrAborted error = Failure("Operation aborted")

// A Failure is an error whose text is written for a model, which sees it unchanged.
type Failure string

// Error returns the text.
func (f Failure) Error() string { return string(f) }

// Failf formats a [Failure].
func Failf(format string, args ...any) error { return Failure(fmt.Sprintf(format, args...)) }

// A Tool is a definition with the function that executes it.
//
// Execute executes a call whose arguments satisfy Parameters. It may be called concurrently, and must return soon
// after its context is cancelled. Its error becomes an error result with the error's text. Use [Typed] to make a tool
// from a Go function.
type Tool struct {
	schemas.ToolDefinition
	Execute func(ctx context.Context, call Call) (schemas.ToolResult, error)
}

// A Call is one request to run a tool. IdempotencyKey is the same for every attempt at the call; a tool with external
// effects should pass it on.
type Call struct {
	Session        string
	RunID          string
	TurnID         string
	Key            schemas.CallKey
	ID             string // the model's id of the call
	Arguments      json.RawMessage
	IdempotencyKey string
	// Revision is the revision of the definition that the call was made for; "" if the definition has none, or the
	// caller is an older version.
	Revision string
	// NoSession reports that the caller has no session of a runner, such as an MCP client; Session is then a name of
	// its own.
	NoSession bool

	update func(schemas.ToolResult)
}

// Update sends a partial result, which replaces the previous one, to those who follow the call. It may be called from
// any goroutine, but not concurrently. After the tool has returned, it does nothing.
func (c Call) Update(partial schemas.ToolResult) {
	if c.update != nil {
		c.update(partial)
	}
}

// Run executes a call and always returns a result: it converts an error or a panic to an error result ([ResultOf]).
// It drops updates that arrive after the end. update may be nil.
func (t Tool) Run(ctx context.Context, call Call, update func(schemas.ToolResult)) (result schemas.ToolResult,
	isError bool) {
	return ResultOf(t.Try(ctx, call, update))
}

// Try is [Tool.Run] for callers that need the error itself. A panic becomes a [PanicError].
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

// ResultOf returns the result that a model sees for what a tool returned.
func ResultOf(result schemas.ToolResult, err error) (_ schemas.ToolResult, isError bool) {
	if err != nil {
		return schemas.ErrorResult(errorText(err)), true
	}
	return result, false
}

// errorText replaces the text of a bare context error, which does not come from the tool, by one that models know.
func errorText(err error) string {
	if err == context.Canceled { //nolint:errorlint // a wrapped error has its own text
		return ErrAborted.Error()
	}
	return err.Error()
}

// A PanicError is the error of a tool that panicked. Its text omits the stack, which is for logs.
type PanicError struct {
	Tool  string
	Value any
	Stack []byte
}

// Error returns the tool and the panic's value.
func (e *PanicError) Error() string { return fmt.Sprintf("Tool %s panicked: %v", e.Tool, e.Value) }

// A TimeLimitError is the cause of a context that was cancelled because a call exceeded its time limit.
type TimeLimitError struct{ Limit time.Duration }

// Error returns the limit.
func (e *TimeLimitError) Error() string {
	return "Tool timed out after " + Seconds(e.Limit.Seconds()) + " seconds"
}

// DefaultReadTimeout is the default time limit of the built-in read-only tools. It leaves room for a search through 5
// GB in 127,000 uncached files, which took 73 s. A call that takes longer hangs in a file system that does not
// respond, or should search a smaller directory.
const DefaultReadTimeout = 2 * time.Minute

// Seconds formats a number of seconds in the shortest form that parses back to the same value.
func Seconds(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// Interrupted returns the error that a tool should report for a cancelled context: a [TimeLimitError], or
// [ErrAborted]. It returns nil if the context is not cancelled.
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

// gate passes updates until it is closed.
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
