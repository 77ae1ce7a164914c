package driver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/schemas/toolargs"
	"github.com/loopbus/loopbus/schemas/toolargs/cached"
)

// refusalError is the reason why a call is not executed, which becomes the text of its result.
type refusalError string

func (e refusalError) Error() string { return string(e) }

// errAwaitsApproval means that a call waits for an approval.
var errAwaitsApproval = errors.New("call waits for an approval")

// textBlocked is the result of a call that a hook blocked without a reason.
const textBlocked = "Tool execution was blocked"

// prepare does everything between tool_execution_start and execution: it finds the tool, validates the arguments and
// asks the hook. It returns the arguments to execute the call with, or a refusalError if the call is refused.
func (d *Driver) prepare(ctx context.Context, call loop.Call) (json.RawMessage, error) {
	if utf8.RuneCountInString(call.ToolCall.ID) > schemas.MaxToolCallID { // its result could not come back
		return nil, refusalError(fmt.Sprintf("The id of the call has more than %d characters", schemas.MaxToolCallID))
	}
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
	if decision == nil { // no earlier process has asked
		if decision, err = d.decide(ctx, call, args); err != nil {
			return nil, err
		}
	}
	return decidedArgs(decision, args)
}

// decide asks the services and the run's policy about a call and records the decision. It returns nil if there is
// nothing to ask.
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
		d.boundDecided(h)
	}
	if d.runSignal(ctx).Err() != nil && len(h.Failures) > 0 { // services did not answer because the run is to end
		return &schemas.HookDecision{Block: true, Reason: loop.TextAborted}, nil
	}
	if asks && !h.Block && !h.Ask {
		h.Ask, h.By = true, cmp.Or(h.By, "policy")
	}
	if h.Ask {
		h.TimeoutMs = cmp.Or(h.TimeoutMs, policy.TimeoutMs)
	}
	if err := d.emit(ctx, h, ""); err != nil || h.Args == nil {
		return h, err
	}
	return h, d.room() // the session has grown, and more calls of the reply may follow
}

// boundDecided blocks a call whose arguments services have replaced if the calls of the turn would have too many bytes
// of such arguments together.
func (d *Driver) boundDecided(h *schemas.HookDecision) {
	d.View(func(s *loop.State) {
		if n := s.DecidedArgs() + len(h.Args); len(h.Args) > 0 && n > loop.MaxDecidedArgs {
			h.Block, h.Args, h.Ask = true, nil, false
			h.Reason = fmt.Sprintf("The arguments that services have given to the calls of this turn have %d bytes, "+
				"and may have %d", n, loop.MaxDecidedArgs)
		}
	})
}

// decidedArgs returns the arguments that a decision leaves, or a refusalError. A nil decision changes nothing.
func decidedArgs(h *schemas.HookDecision, args json.RawMessage) (json.RawMessage, error) {
	switch {
	case h != nil && h.Block:
		return nil, refusalError(cmp.Or(h.Reason, textBlocked))
	case h != nil && h.Args != nil:
		return h.Args, nil
	}
	return args, nil
}

// arguments returns a call's arguments as its tool gets them: reshaped, coerced and valid. The error wraps the cause of
// ctx if that ended the check.
func (d *Driver) arguments(ctx context.Context, call loop.Call) (json.RawMessage, error) {
	var def *schemas.ToolDefinition
	d.View(func(s *loop.State) { def = s.Definition(call.ToolCall.Name) })
	if def == nil {
		//lint:ignore ST1005 the text is pi's
		return nil, fmt.Errorf("Tool %s not found", shortName(call.ToolCall.Name))
	}
	args := toolargs.Rewrite(ctx, def.ArgumentRewrites, rawArgs(call.ToolCall))
	if d.o.PrepareArguments != nil {
		prepared, err := resultOf(d, "prepareArguments", func() (json.RawMessage, error) {
			return d.o.PrepareArguments(call.ToolCall.Name, args)
		})
		if err != nil {
			return nil, err
		}
		args = prepared
	}
	schema, err := cached.Compile(def.Parameters)
	if err != nil {
		return nil, errors.New("invalid parameters schema of tool " + def.Name + ": " + err.Error())
	}
	return schema.Validate(ctx, def.Name, args)
}

// shortName returns a name that a model has made up, and cuts a long one: a reply with many of them would be in the
// context twice.
func shortName(name string) string {
	const most = 256
	if len(name) <= most {
		return name
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(name[:most], ""), len(name))
}

// textNobodyToAsk is the result of a call that needs an approval in a program where nobody can give one.
const textNobodyToAsk = "The call needs an approval, and an agent in memory has nobody to ask"

// approve has a call that needs an approval wait for it; the session is at rest in the meantime. It returns the
// approved arguments, errAwaitsApproval if the call waits, or a refusalError if the call is refused.
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
		call, _, _ = d.call(i) // which may have been answered in between
	}
	if call.AwaitsApproval() {
		d.begun[call.Key] = &begunCall{waiting: true}
		return nil, errAwaitsApproval
	}
	if denied := call.Denied(); denied != "" {
		return nil, refusalError(denied)
	}
	return call.Agreed(args), nil
}

// requestApproval appends the request: the arguments to execute the call with, and the digest of all that an answer
// refers to.
func (d *Driver) requestApproval(ctx context.Context, call loop.Call, args json.RawMessage) (err error) {
	request := &schemas.ApprovalRequested{
		Call: call.Key, ToolCallID: call.ToolCall.ID, ToolName: call.ToolCall.Name, Args: args,
		Reason: call.Decision.Reason, By: call.Decision.By, TimeoutMs: call.Decision.TimeoutMs,
	}
	if request.Digest, err = request.DigestIn(d.session, call.Nonce); err != nil {
		return err
	}
	return d.emit(ctx, request, "")
}

// maxArgsProblem bounds, in bytes, what a rejection quotes of the validation error of edited arguments.
const maxArgsProblem = 4 << 10

// checkEdited validates the arguments that an approve substitutes for a call's by the tool's schema, and coerces them
// like a model's. It returns the rejection of an approve whose arguments are invalid. An approve that answers no
// waiting call is left to [loop.Accept], which rejects it.
//
// The caller holds the lock, so that the call that is checked is the one that is answered. [toolargs] bounds the time
// of the check, and the model's own arguments have passed the same schema.
func (d *Driver) checkEdited(ctx context.Context, c *schemas.Command) (*schemas.CommandRejected, error) {
	approve, ok := c.Data.(*schemas.Approve)
	if !ok || approve.Args == nil || d.state.Known.Has(c.ID) {
		return nil, nil
	}
	call := d.state.Call(approve.Call)
	if call == nil || !call.AwaitsApproval() || call.Approval.OtherThan(approve.ApprovalAnswer) {
		return nil, nil
	}
	r := &schemas.CommandRejected{CommandID: c.ID, Kind: schemas.CommandApprove, Code: schemas.RejectInvalidArgs,
		InboxPosition: d.state.Known.Position(c.InboxPosition)}
	name := call.ToolCall.Name
	def := d.state.Definition(name)
	if def == nil { // not with this driver: it refuses such a call before it requests an approval
		r.Reason = fmt.Sprintf("call %s: the run has no tool %s", approve.Call, name)
		return r, nil
	}
	schema, err := cached.Compile(def.Parameters)
	if err != nil {
		r.Reason = fmt.Sprintf("call %s: the schema of tool %s: %v", approve.Call, name, err)
		return r, nil
	}
	args, err := schema.Validate(ctx, name, approve.Args)
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("approve %s of session %s: %w", approve.Call, d.session, context.Cause(ctx))
	case err != nil:
		r.Reason = argsProblem(err)
		return r, nil
	}
	c.Data = &schemas.Approve{ApprovalAnswer: approve.ApprovalAnswer, Args: args}
	return nil, nil
}

// argsProblem returns a validation error without the arguments that it quotes: the sender of the command has them.
func argsProblem(err error) string {
	text, _, _ := strings.Cut(err.Error(), "\n\nReceived arguments:\n")
	if len(text) > maxArgsProblem {
		text = strings.ToValidUTF8(text[:maxArgsProblem], "") + " [cut]"
	}
	return text
}
