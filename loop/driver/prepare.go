package driver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/schemas/toolargs"
)

// refusalError says why a call is not executed: the text of its result.
type refusalError string

func (e refusalError) Error() string { return string(e) }

// errWaits says of a call that it waits for an approval.
var errWaits = errors.New("call waits for an approval")

// textBlocked is the result of a call that a hook blocked without a reason.
const textBlocked = "Tool execution was blocked"

// prepare does everything between tool_execution_start and execution: the tool must be known, its arguments fit, and
// the hook agree. It returns the arguments; the error is a refusalError where the call is refused.
func (d *Driver) prepare(ctx context.Context, call loop.Call) (json.RawMessage, error) {
	signal := d.runSignal(ctx)
	args, err := d.arguments(signal, call)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case signal.Err() != nil && errors.Is(err, context.Cause(signal)):
		return nil, refusalError(loop.TextAborted)
	default:
		d.logPanic(err)
		return nil, refusalError(err.Error())
	}
	decision := call.Decision
	if decision == nil { // or an earlier process has asked
		if decision, err = d.decide(ctx, call, args); err != nil {
			return nil, err
		}
	}
	return decided(decision, args)
}

// decide asks services and the run's policy about a call, and records what they say; nil where there is nothing to ask.
func (d *Driver) decide(ctx context.Context, call loop.Call, args json.RawMessage) (*schemas.HookDecision, error) {
	var policy schemas.ApprovalPolicy
	d.View(func(s *loop.State) { policy = s.Config.Approval })
	asks := policy.Asks(call.ToolCall.Name)
	services := d.inquiryOfRun(schemas.HookBeforeToolCall)
	if !asks && services == nil {
		return nil, nil
	}
	h := &schemas.HookDecision{Hook: schemas.HookBeforeToolCall, ToolCallID: call.ToolCall.ID, Call: call.Key}
	if services != nil {
		if err := d.askBefore(ctx, services, call, args, h); err != nil {
			return nil, err
		}
	}
	if d.runSignal(ctx).Err() != nil && len(h.Failures) > 0 { // no answer because the run is to end
		return &schemas.HookDecision{Block: true, Reason: loop.TextAborted}, nil
	}
	if asks && !h.Block && !h.Ask {
		h.Ask, h.By = true, cmp.Or(h.By, "policy")
	}
	if h.Ask {
		h.TimeoutMs = cmp.Or(h.TimeoutMs, policy.TimeoutMs)
	}
	return h, d.emit(ctx, h, "")
}

// decided returns the arguments that a decision leaves, or what it refuses the call with; nil decides nothing.
func decided(h *schemas.HookDecision, args json.RawMessage) (json.RawMessage, error) {
	switch {
	case h != nil && h.Block:
		return nil, refusalError(cmp.Or(h.Reason, textBlocked))
	case h != nil && h.Args != nil:
		return h.Args, nil
	}
	return args, nil
}

// arguments are a call's arguments as its tool is to get them: reshaped, coerced and valid. The error
// wraps the cause of ctx where that ended the check.
func (d *Driver) arguments(ctx context.Context, call loop.Call) (json.RawMessage, error) {
	var def *schemas.ToolDefinition
	d.View(func(s *loop.State) { def = s.Definition(call.ToolCall.Name) })
	if def == nil {
		//lint:ignore ST1005 the text is pi's
		return nil, fmt.Errorf("Tool %s not found", call.ToolCall.Name)
	}
	args := toolargs.Rewrite(def.ArgumentRewrites, rawArgs(call.ToolCall))
	if d.o.PrepareArguments != nil {
		prepared, err := resultOf(d, "prepareArguments", func() (json.RawMessage, error) {
			return d.o.PrepareArguments(call.ToolCall.Name, args)
		})
		if err != nil {
			return nil, err
		}
		args = prepared
	}
	schema, err := d.args.compiled(def)
	if err != nil {
		return nil, errors.New("invalid parameters schema of tool " + def.Name + ": " + err.Error())
	}
	return schema.Validate(ctx, def.Name, args)
}

// argsCache has the compiled parameter schemas of the run's tools: compiling costs a thousand times what validating
// does.
type argsCache map[string]compiledArgs

type compiledArgs struct {
	parameters string
	schema     *toolargs.Schema
}

func (c argsCache) compiled(def *schemas.ToolDefinition) (*toolargs.Schema, error) {
	if have, ok := c[def.Name]; ok && have.parameters == string(def.Parameters) {
		return have.schema, nil
	}
	schema, err := toolargs.Compile(def.Parameters)
	if err != nil {
		return nil, err
	}
	c[def.Name] = compiledArgs{string(def.Parameters), schema}
	return schema, nil
}

// textNobodyToAsk is the result of a call that needs an approval where nobody can give one.
const textNobodyToAsk = "The call needs an approval, and an agent in memory has nobody to ask"

// approve does what the decision about a call asks for: a call that needs an approval waits for it, at rest. It returns
// the arguments that were agreed to; the error is errWaits where the call waits, a refusalError where it is refused.
func (d *Driver) approve(ctx context.Context, i int, args json.RawMessage) (agreed json.RawMessage, err error) {
	call, _, ok := d.call(i)
	switch {
	case !ok || call.Decision == nil || !call.Decision.Ask:
		return args, nil
	case d.local():
		return nil, refusalError(textNobodyToAsk)
	case call.Approval == nil:
		if err := d.requestApproval(ctx, call, args); err != nil {
			return nil, err
		}
		call, _, _ = d.call(i) // which may have been answered already
	}
	if call.AwaitsApproval() {
		if err := d.setApprovalTimer(ctx, call); err != nil {
			return nil, err
		}
		d.flights[call.Key] = &flight{args: args, waiting: true}
		return nil, errWaits
	}
	if denied := call.Denied(); denied != "" {
		return nil, refusalError(denied)
	}
	return call.Agreed(args), nil
}

func (d *Driver) requestApproval(ctx context.Context, call loop.Call, args json.RawMessage) error {
	return d.emit(ctx, &schemas.ApprovalRequested{
		Call: call.Key, ToolCallID: call.ToolCall.ID, ToolName: call.ToolCall.Name, Args: args,
		Reason: call.Decision.Reason, By: call.Decision.By, TimeoutMs: call.Decision.TimeoutMs,
	}, "")
}

// maxComplaint is how many bytes of what is wrong with edited arguments the refusal has.
const maxComplaint = 4 << 10

// checkEdited validates the arguments that an approve puts in place of a call's by the tool's schema, and coerces
// them as a model's are. It returns the refusal of those that do not fit. What does not answer a waiting call is left
// to [loop.Accept], which refuses it.
//
// The caller holds the lock, so that the call that is checked is the one that is answered. The check is bounded as
// [toolargs] says, and the model's own arguments have passed the same schema.
func (d *Driver) checkEdited(ctx context.Context, c *schemas.Command) (*schemas.CommandRejected, error) {
	approve, ok := c.Data.(*schemas.Approve)
	if !ok || approve.Args == nil || d.state.Known.Has(c.ID) {
		return nil, nil
	}
	call := d.state.Call(approve.Call)
	if call == nil || !call.AwaitsApproval() {
		return nil, nil
	}
	r := &schemas.CommandRejected{CommandID: c.ID, Kind: schemas.CommandApprove, Code: schemas.RejectInvalidArgs}
	name := call.ToolCall.Name
	def := d.state.Definition(name)
	if def == nil { // such a call is refused before anybody is asked about it
		r.Reason = fmt.Sprintf("call %s: the run has no tool %s", approve.Call, name)
		return r, nil
	}
	schema, err := toolargs.Compile(def.Parameters)
	if err != nil {
		r.Reason = fmt.Sprintf("call %s: the schema of tool %s: %v", approve.Call, name, err)
		return r, nil
	}
	args, err := schema.Validate(ctx, name, approve.Args)
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("approve %s of session %s: %w", approve.Call, d.session, context.Cause(ctx))
	case err != nil:
		r.Reason = complaint(err)
		return r, nil
	}
	c.Data = &schemas.Approve{ApprovalAnswer: approve.ApprovalAnswer, Args: args}
	return nil, nil
}

// complaint is what is wrong with arguments, without the arguments: who sent them has them.
func complaint(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n\nReceived arguments:\n")
	if len(text) > maxComplaint {
		text = strings.ToValidUTF8(text[:maxComplaint], "") + " [cut]"
	}
	return text
}
