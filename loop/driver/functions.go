package driver

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// Hooks are functions of the program that see and change what the loop does at fixed points. A nil member is not
// called. The goroutine that drives the session calls the hooks, one at a time; their context is the run's abort
// signal. A panic of a hook counts as its error.
//
// TransformContext, BeforeToolCall and AfterToolCall are asked in the way that [Services] are, before the services that
// the run names, and what they change is recorded in the log in the same way.
type Hooks struct {
	// TransformContext returns the messages that the model gets in place of the transcript, which does not change. An
	// error fails the run.
	TransformContext func(ctx context.Context, messages schemas.Messages) (schemas.Messages, error)
	// ConvertToLLM converts messages of custom roles into messages that a model takes. Nil converts the session's own
	// entries to a user's messages ([compaction.ToLLM]) and drops all others.
	ConvertToLLM func(ctx context.Context, messages schemas.Messages) (schemas.Messages, error)
	// GetAPIKey is called before every request; for an empty key the model uses its own.
	GetAPIKey func(ctx context.Context, provider string) (string, error)
	// BeforeToolCall may block a call or change its validated arguments. An error blocks the call, with the error's text.
	BeforeToolCall func(ctx context.Context, c BeforeToolCall) (BeforeToolCallResult, error)
	// AfterToolCall may replace parts of a result. An error becomes an error result in place of the result.
	AfterToolCall func(ctx context.Context, c AfterToolCall) (AfterToolCallResult, error)
	// ShouldStopAfterTurn ends the run after a turn, before any queue is polled.
	ShouldStopAfterTurn func(ctx context.Context, c TurnContext) (bool, error)
	// GetSteeringMessages and GetFollowUpMessages are called where the loop polls its queues, for programs without queues.
	GetSteeringMessages func(ctx context.Context) (schemas.Messages, error)
	GetFollowUpMessages func(ctx context.Context) (schemas.Messages, error)
}

// BeforeToolCall is the argument of that hook. ToolCall has the arguments as the model wrote them, Args the validated
// ones.
type BeforeToolCall struct {
	AssistantMessage *schemas.AssistantMessage
	ToolCall         schemas.ToolCall
	Args             json.RawMessage
	Context          ContextView
}

// BeforeToolCallResult is the hook's answer; the zero value allows the call. An empty Reason stands for the default
// text. Args, if not nil, replaces the validated arguments and is not validated again. Ask makes the call wait for an
// approval, for at most AskTimeout; 0 stands for the limit of the run's policy. By names in the log who decided.
type BeforeToolCallResult struct {
	Block      bool
	Reason     string
	Args       json.RawMessage
	Ask        bool
	AskTimeout time.Duration
	By         string
}

// AfterToolCall is the argument of that hook.
type AfterToolCall struct {
	BeforeToolCall
	Result  schemas.ToolResult
	IsError bool
}

// AfterToolCallResult is the hook's answer. Nil members, and Details that are null, leave the result as it is; members
// are replaced, not merged.
type AfterToolCallResult struct {
	Content   *schemas.Contents
	Details   json.RawMessage
	IsError   *bool
	Terminate *bool
}

// TurnContext is the argument of ShouldStopAfterTurn.
type TurnContext struct {
	Message     *schemas.AssistantMessage
	ToolResults schemas.Messages
	Context     ContextView
	NewMessages schemas.Messages
}

// ContextView is the run's context when a hook is called, without the results of the tool calls under way.
type ContextView struct {
	SystemPrompt string
	Messages     schemas.Messages
	Tools        []schemas.ToolDefinition
}

// function returns the program's function for a hook, or nil. Where the hook defines what a failure means, a failure of
// the function is part of its answer; the function returns an error where that fails the run.
func (d *Driver) function(hook schemas.HookName) askFunc {
	h := d.o.Hooks
	switch {
	case hook == schemas.HookContext && h.TransformContext != nil:
		return d.transformContext
	case hook == schemas.HookBeforeToolCall && h.BeforeToolCall != nil:
		return d.beforeToolCall
	case hook == schemas.HookAfterToolCall && h.AfterToolCall != nil:
		return d.afterToolCall
	}
	return nil
}

func (d *Driver) transformContext(ctx context.Context, req schemas.HookRequest) (a schemas.HookAnswer, err error) {
	messages, err := resultOf(d, "transformContext", func() (schemas.Messages, error) {
		return d.o.Hooks.TransformContext(ctx, slices.Clone(req.Messages))
	})
	if err == nil && !slices.Equal(messages, req.Messages) {
		a.Messages = append(schemas.Messages{}, messages...)
	}
	return a, err
}

func (d *Driver) beforeToolCall(ctx context.Context, req schemas.HookRequest) (schemas.HookAnswer, error) {
	r, err := resultOf(d, "beforeToolCall", func() (BeforeToolCallResult, error) {
		return d.o.Hooks.BeforeToolCall(ctx, d.beforeView(req))
	})
	a := schemas.HookAnswer{By: r.By}
	switch {
	case err != nil: // a failure blocks the call
		d.logPanic(err)
		a.Block, a.Reason = true, err.Error()
	case r.Block:
		a.Block, a.Reason = true, r.Reason
	default:
		a.Args = r.Args
		if r.Ask {
			a.Ask, a.Reason, a.TimeoutMs = true, r.Reason, r.AskTimeout.Milliseconds()
		}
	}
	return a, nil
}

func (d *Driver) afterToolCall(ctx context.Context, req schemas.HookRequest) (schemas.HookAnswer, error) {
	r, err := resultOf(d, "afterToolCall", func() (AfterToolCallResult, error) {
		show := AfterToolCall{BeforeToolCall: d.beforeView(req), Result: *req.Result, IsError: req.IsError}
		return d.o.Hooks.AfterToolCall(ctx, show)
	})
	if err != nil {
		d.logPanic(err)
		failed, yes, no := schemas.ErrorResult(err.Error()), true, false
		r = AfterToolCallResult{Content: &failed.Content, Details: failed.Details, IsError: &yes, Terminate: &no}
	}
	return schemas.HookAnswer{Content: r.Content, Details: r.Details, IsError: r.IsError, Terminate: r.Terminate}, nil
}

// beforeView returns what a hook of a call gets in addition to its request.
func (d *Driver) beforeView(req schemas.HookRequest) (v BeforeToolCall) {
	d.View(func(s *loop.State) {
		v = BeforeToolCall{AssistantMessage: s.Run.Turn.Reply, Args: req.Args, Context: contextView(s)}
		if call := s.Call(req.Call); call != nil {
			v.ToolCall = call.ToolCall
		}
		v.Context.Messages = v.Context.Messages[:beforeBatch(s)]
	})
	v.ToolCall.Arguments = bytes.Clone(rawArgs(v.ToolCall))
	return v
}

// beforeBatch returns the length of the context without the results of the tool calls under way, which pi's hooks do
// not see.
func beforeBatch(s *loop.State) int {
	n := len(s.Transcript())
	for _, c := range s.Run.Turn.Calls {
		if c.MessageID != "" {
			n--
		}
	}
	return n
}

func contextView(s *loop.State) ContextView {
	return ContextView{
		SystemPrompt: s.Config.SystemPrompt, Messages: s.Transcript(), Tools: slices.Clone(s.Config.Tools),
	}
}
