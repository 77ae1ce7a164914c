package driver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/schemas/toolargs"
)

// textBlocked is the result of a call that a hook blocked without a reason (behaviour A4.2).
const textBlocked = "Tool execution was blocked"

// prepare does everything between tool_execution_start and execution: the tool must be known, its arguments fit, and
// the hook agree (behaviour A4.2). It returns the arguments, or the text the call is refused with.
func (d *Driver) prepare(ctx context.Context, call loop.Call) (args json.RawMessage, refusal string, err error) {
	args, err = d.arguments(call)
	if err != nil {
		d.logPanic(err)
		return nil, err.Error(), nil
	}
	if call.Decision != nil { // an earlier process has asked
		return decided(call.Decision, args)
	}
	decision, err := d.decide(ctx, call, args)
	if err != nil || decision == nil {
		return args, "", err
	}
	return decided(decision, args)
}

// decide asks the hook and the run's policy about a call, and records what they say; nil where there is nothing to ask.
func (d *Driver) decide(ctx context.Context, call loop.Call, args json.RawMessage) (*schemas.HookDecision, error) {
	var policy schemas.ApprovalPolicy
	d.View(func(s *loop.State) { policy = s.Config.Approval })
	asks := policy.Asks(call.ToolCall.Name)
	if d.o.Hooks.BeforeToolCall == nil && !asks && d.hearOfRun(schemas.HookBeforeToolCall) == nil {
		return nil, nil
	}
	h := &schemas.HookDecision{Hook: schemas.HookBeforeToolCall, ToolCallID: call.ToolCall.ID, Call: call.Key}
	if d.o.Hooks.BeforeToolCall != nil {
		d.askBefore(ctx, call, args, h)
	}
	if err := d.askServicesBefore(ctx, call, args, h); err != nil {
		return nil, err
	}
	if d.runSignal(ctx).Err() != nil && len(h.Failures) > 0 { // not heard because the run is to end
		return &schemas.HookDecision{Block: true, Reason: loop.TextAborted}, nil
	}
	if asks && !h.Block && !h.Ask {
		h.Ask, h.By = true, orDefault(h.By, "policy")
	}
	if h.Ask {
		h.TimeoutMs = orDefault(h.TimeoutMs, policy.TimeoutMs)
	}
	return h, d.emit(ctx, h, "")
}

func decided(h *schemas.HookDecision, args json.RawMessage) (json.RawMessage, string, error) {
	if h.Block {
		return nil, h.Reason, nil
	}
	if h.Args != nil {
		args = h.Args
	}
	return args, "", nil
}

// askBefore asks the hook.
func (d *Driver) askBefore(ctx context.Context, call loop.Call, args json.RawMessage, h *schemas.HookDecision) {
	signal := d.runSignal(ctx)
	show := d.beforeView(call, args)
	var answer BeforeToolCallResult
	failure := guard("beforeToolCall", func() (err error) {
		answer, err = d.o.Hooks.BeforeToolCall(signal, show)
		return err
	})
	h.By = answer.By
	switch {
	case failure != nil: // fails closed
		d.logPanic(failure)
		h.Block, h.Reason = true, failure.Error()
	case answer.Block:
		h.Block, h.Reason = true, answer.Reason
		if h.Reason == "" {
			h.Reason = textBlocked
		}
	case answer.Args != nil && !bytes.Equal(answer.Args, args):
		h.Args = answer.Args
	}
	if answer.Ask && !h.Block {
		h.Ask, h.Reason, h.TimeoutMs = true, answer.Reason, answer.AskTimeout.Milliseconds()
	}
}

func (d *Driver) beforeView(call loop.Call, args json.RawMessage) (v BeforeToolCall) {
	d.View(func(s *loop.State) {
		v = BeforeToolCall{
			AssistantMessage: s.Run.Turn.Reply, ToolCall: call.ToolCall, Args: args, Context: contextView(s),
		}
		v.Context.Messages = v.Context.Messages[:d.beforeBatch(s)]
	})
	v.ToolCall.Arguments = rawArgs(call.ToolCall)
	return v
}

// beforeBatch is the length of the context without the results of the running batch (finding 331).
func (d *Driver) beforeBatch(s *loop.State) int {
	n := len(s.Transcript())
	for _, c := range s.Run.Turn.Calls {
		if c.MessageID != "" {
			n--
		}
	}
	return n
}

// arguments are a call's arguments as its tool is to get them: reshaped, coerced and valid (behaviour A4.3).
func (d *Driver) arguments(call loop.Call) (json.RawMessage, error) {
	var def *schemas.ToolDefinition
	d.View(func(s *loop.State) { def = loop.Definition(s, call.ToolCall.Name) })
	if def == nil {
		return nil, fmt.Errorf("Tool %s not found", call.ToolCall.Name) //nolint:staticcheck // pi's text
	}
	args := toolargs.Rewrite(def.ArgumentRewrites, rawArgs(call.ToolCall))
	if d.o.PrepareArguments != nil {
		err := guard("prepareArguments", func() error {
			prepared, err := d.o.PrepareArguments(call.ToolCall.Name, args)
			args = prepared
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	schema, err := d.args.compiled(def)
	if err != nil {
		return nil, errors.New("invalid parameters schema of tool " + def.Name + ": " + err.Error())
	}
	return schema.Validate(def.Name, args)
}
