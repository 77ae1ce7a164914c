package driver

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// textNobodyToAsk is the result of a call that needs an approval where nobody can give one.
const textNobodyToAsk = "The call needs an approval, and an agent in memory has nobody to ask"

// approve does what the decision about a call asks for: a call that needs an approval waits for it, at rest. It returns
// whether the call waits, or the text it is refused with.
func (d *Driver) approve(ctx context.Context, i int, args json.RawMessage) (waits bool, refusal string, err error) {
	call, _, ok := d.call(i)
	switch {
	case !ok || call.Decision == nil || !call.Decision.Ask:
		return false, "", nil
	case d.o.LocalTools:
		return false, textNobodyToAsk, nil
	case call.Approval == nil:
		if err := d.requestApproval(ctx, call, args); err != nil {
			return false, "", err
		}
		call, _, _ = d.call(i)
	}
	if !call.AwaitsApproval() {
		return false, call.Denied(), nil
	}
	if err := d.setApprovalTimer(ctx, call); err != nil {
		return false, "", err
	}
	d.flights[call.Key] = &flight{args: args, waiting: true}
	return true, "", nil
}

func (d *Driver) requestApproval(ctx context.Context, call loop.Call, args json.RawMessage) error {
	return d.emit(ctx, &schemas.ApprovalRequested{
		Call: call.Key, ToolCallID: call.ToolCall.ID, ToolName: call.ToolCall.Name, Args: args,
		Reason: call.Decision.Reason, By: call.Decision.By, TimeoutMs: call.Decision.TimeoutMs,
	}, "")
}

// setApprovalTimer has time deny the call. A process that takes the session up sets it again: the one before may have
// died first.
func (d *Driver) setApprovalTimer(ctx context.Context, call loop.Call) error {
	until := call.Approval.Until()
	if until.IsZero() || d.o.Timers == nil {
		return nil
	}
	timer := schemas.Timer{Name: schemas.TimerApproval + "_" + string(call.Key), Call: string(call.Key)}
	d.View(func(s *loop.State) { timer.RunID = s.Run.ID })
	ctx, cancel := context.WithTimeout(ctx, timerTimeout)
	defer cancel()
	if err := d.o.Timers.Schedule(ctx, d.session, until, timer); err != nil {
		return fmt.Errorf("limit the wait for approval of call %s of session %s to %s: %w", call.Key, d.session,
			time.Duration(call.Approval.TimeoutMs)*time.Millisecond, err)
	}
	return nil
}
