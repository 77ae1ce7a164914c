package tools

import (
	"bytes"
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
// its context is cancelled. It may call update with partial results, each replacing the one before, from any goroutine
// but one at a time, and not after it has returned. Its error becomes an error result with the error's text.
type Tool struct {
	schemas.ToolDefinition
	Execute func(ctx context.Context, call Call, update func(schemas.ToolResult)) (schemas.ToolResult, error)
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
}

// Run executes a call and always has a result: an error becomes one with its text ([ResultOf]), and so does a panic.
// Updates that come after the end are dropped. A nil update is allowed.
func (t Tool) Run(ctx context.Context, call Call, update func(schemas.ToolResult)) (result schemas.ToolResult, isError bool) {
	return ResultOf(t.Try(ctx, call, update))
}

// Try is [Tool.Run] for those who want the error itself. A panic is a [PanicError].
func (t Tool) Try(ctx context.Context, call Call, update func(schemas.ToolResult)) (_ schemas.ToolResult, err error) {
	gate := &gate{update: update}
	defer gate.close()
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{Tool: t.Name, Value: p, Stack: debug.Stack()}
		}
	}()
	return t.Execute(ctx, call, gate.pass)
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

// DecodeArguments reads a call's arguments into a T. Unknown members are ignored.
func DecodeArguments[T any](call Call) (T, error) {
	var args T
	raw := bytes.TrimSpace(call.Arguments)
	if len(raw) == 0 {
		return args, nil
	}
	if err := json.Unmarshal(raw, &args); err != nil {
		return args, fmt.Errorf("invalid arguments: %w", err)
	}
	return args, nil
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
