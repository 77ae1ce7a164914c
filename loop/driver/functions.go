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

// Hooks are functions of the program at the places where it can see and change what the loop does. A nil member is not
// installed. Hooks are called from the goroutine that drives the session, one at a time; their context is the run's
// abort signal. A hook that panics has failed, with that panic as its error.
//
// TransformContext, BeforeToolCall and AfterToolCall are asked as [Services] are, ahead of those that the run names,
// and what they change is in the log like theirs.
type Hooks struct {
	// TransformContext decides what the model sees of the transcript, which is itself not changed. An error fails the run.
	TransformContext func(ctx context.Context, messages schemas.Messages) (schemas.Messages, error)
	// ConvertToLLM turns custom roles into ones a model knows. Without it those of a session's own entries become a
	// user's ([compaction.ToLLM]), and all others are dropped.
	ConvertToLLM func(ctx context.Context, messages schemas.Messages) (schemas.Messages, error)
	// GetAPIKey is asked before every request; an empty key falls back to the configured one.
	GetAPIKey func(ctx context.Context, provider string) (string, error)
	// BeforeToolCall may block a call or edit its validated arguments. An error blocks it with that text.
	BeforeToolCall func(ctx context.Context, c BeforeToolCall) (BeforeToolCallResult, error)
	// AfterToolCall may replace parts of a result. An error replaces the result with an error result.
	AfterToolCall func(ctx context.Context, c AfterToolCall) (AfterToolCallResult, error)
	// ShouldStopAfterTurn ends the run after a turn, before any queue is polled.
	ShouldStopAfterTurn func(ctx context.Context, c TurnContext) (bool, error)
	// GetSteeringMessages and GetFollowUpMessages are polled as the queues are, by programs that have none.
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
// not nil, replaces the validated arguments and is not validated again. Ask has the call wait until somebody approves
// it, for AskTimeout, 0 for as long as the run's policy says. By says, for the log, who decided.
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
// deep merge.
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

// function returns what answers for a hook in this process, with the name that its panic has, or nil. An error of it is
// in its answer where the hook says what an error means; it is returned where it fails the run.
func (d *Driver) function(hook schemas.HookName) (name string, ask askFunc) {
	h := d.o.Hooks
	switch {
	case hook == schemas.HookContext && h.TransformContext != nil:
		return "transformContext", d.transformContext
	case hook == schemas.HookBeforeToolCall && h.BeforeToolCall != nil:
		return "beforeToolCall", d.beforeToolCall
	case hook == schemas.HookAfterToolCall && h.AfterToolCall != nil:
		return "afterToolCall", d.afterToolCall
	}
	return "", nil
}

func (d *Driver) transformContext(ctx context.Context, req schemas.HookRequest) (a schemas.HookAnswer, err error) {
	messages, err := d.o.Hooks.TransformContext(ctx, slices.Clone(req.Messages))
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
	case err != nil: // no answer is no
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

// beforeView is what a hook of a call gets in addition to its request.
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

// beforeBatch is the length of the context without the results of the running batch: pi's hooks do not see them.
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
