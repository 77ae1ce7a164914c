package driver

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// Hooks are the places where a program can see and change what the loop does. A nil member is not installed. Hooks are
// called from the goroutine that drives the session, one at a time; their context is the run's abort signal. A hook
// that panics has failed, with that panic as its error.
type Hooks struct {
	// TransformContext decides what the model sees of the transcript, which is itself not changed.
	TransformContext func(ctx context.Context, messages schemas.Messages) (schemas.Messages, error)
	// ConvertToLLM turns custom roles into ones a model knows. Without it they are dropped.
	ConvertToLLM func(ctx context.Context, messages schemas.Messages) (schemas.Messages, error)
	// GetAPIKey is asked before every request; an empty key falls back to the configured one.
	GetAPIKey func(ctx context.Context, provider string) (string, error)
	// BeforeToolCall may block a call or edit its validated arguments. An error blocks it with that text.
	BeforeToolCall func(ctx context.Context, c BeforeToolCall) (BeforeToolCallResult, error)
	// AfterToolCall may replace parts of a result. An error replaces the result with an error result.
	AfterToolCall func(ctx context.Context, c AfterToolCall) (AfterToolCallResult, error)
	// ShouldStopAfterTurn ends the run after a turn, before any queue is polled.
	ShouldStopAfterTurn func(ctx context.Context, c TurnContext) (bool, error)
	// GetSteeringMessages and GetFollowUpMessages are polled by [RunLoop] and [ContinueLoop], which have no queues.
	GetSteeringMessages func(ctx context.Context) (schemas.Messages, error)
	GetFollowUpMessages func(ctx context.Context) (schemas.Messages, error)
}

// BeforeToolCall is what the hook of that name is shown. ToolCall has the arguments as the model gave them, Args the
// validated ones.
type BeforeToolCall struct {
	AssistantMessage *schemas.AssistantMessage
	ToolCall         schemas.ToolCall
	Args             json.RawMessage
	Context          ContextView
}

// BeforeToolCallResult is its answer; the zero value allows the call. An empty Reason gives the default text. Args, if
// not nil, replaces the validated arguments and is not validated again. Ask has the call wait until somebody approves it,
// for AskTimeout, 0 for as long as the run's policy says. By says, for the log, who decided.
type BeforeToolCallResult struct {
	Block      bool
	Reason     string
	Args       json.RawMessage
	Ask        bool
	AskTimeout time.Duration
	By         string
}

// AfterToolCall is what the hook of that name is shown.
type AfterToolCall struct {
	BeforeToolCall
	Result  schemas.ToolResult
	IsError bool
}

// AfterToolCallResult is its answer; nil members, and details that are null, leave the result as it is. There is no
// deep merge (behaviour A4.5).
type AfterToolCallResult struct {
	Content   *schemas.Contents
	Details   json.RawMessage
	IsError   *bool
	Terminate *bool
}

// TurnContext is what ShouldStopAfterTurn is shown.
type TurnContext struct {
	Message     *schemas.AssistantMessage
	ToolResults schemas.Messages
	Context     ContextView
	NewMessages schemas.Messages
}

// ContextView is the run's context at that moment. Results of the running batch are not in it.
type ContextView struct {
	SystemPrompt string
	Messages     schemas.Messages
	Tools        []schemas.ToolDefinition
}

// DefaultConvert keeps the three roles a model knows (behaviour A6.3).
func DefaultConvert(messages schemas.Messages) schemas.Messages {
	out := make(schemas.Messages, 0, len(messages))
	for _, m := range messages {
		switch m.MessageRole() {
		case schemas.RoleUser, schemas.RoleAssistant, schemas.RoleToolResult:
			out = append(out, m)
		}
	}
	return out
}

// PanicError is a panic of a hook, tool or model, turned into an error of the run.
type PanicError struct {
	What  string // what panicked
	Value any
	Stack []byte // for logs; never in events
}

// Error names what panicked and with what value.
func (e *PanicError) Error() string { return fmt.Sprintf("%s panicked: %v", e.What, e.Value) }

// guard runs f and turns a panic into a [PanicError].
func guard(what string, f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{What: what, Value: v, Stack: debug.Stack()}
		}
	}()
	return f()
}
