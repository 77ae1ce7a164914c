package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
)

// outcomeUnknown is the result of a call that was lost with its worker and must not be repeated.
const outcomeUnknown = "The outcome of this call is unknown: the worker that ran it was lost before it answered. " +
	"It was not run again because the tool is not safe to repeat. Check what happened before calling it again."

// toolHandler handles the calls of one tool.
type toolHandler struct {
	*Worker
	tool tools.Tool
}

// handle executes a call and returns its answer for the [answerer] to store. An error means that the call cannot even
// be answered.
func (h toolHandler) handle(msg *message.Message) ([]*message.Message, error) {
	raw, ok := h.opts.Raw(msg)
	if !ok {
		return nil, errors.New("worker: the subscriber delivered a message that is not from JetStream")
	}
	md, err := raw.Metadata()
	if err != nil {
		return nil, fmt.Errorf("worker: call at %s: %w", raw.Subject(), err)
	}
	_, session, call, err := h.opts.Subjects.ParseTool(raw.Subject())
	if err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	req, err := parse(msg.Payload, session, call)
	if err != nil {
		h.opts.Logger.Warn("malformed tool call", "tool", h.tool.Name, "session", session, "call", call, "err", err)
		req = schemas.ToolRequest{Session: session, Call: schemas.CallKey(call), ToolName: h.tool.Name}
		return h.answer(msg, req, schemas.ErrorResult("The request of this call was malformed: "+err.Error()), true, 0)
	}
	if md.NumDelivered > 1 && !h.repeatable(req) {
		return h.answer(msg, req, schemas.ErrorResult(outcomeUnknown), true, 0)
	}
	begun := time.Now()
	result, isError := h.execute(msg.Context(), req)
	return h.answer(msg, req, result, isError, time.Since(begun))
}

// parse reads a request and holds it against the subject it came by, which is what the server's permissions protect.
func parse(payload []byte, session, call string) (schemas.ToolRequest, error) {
	var req schemas.ToolRequest
	if err := schemas.ValidateToolRequest(payload); err != nil {
		return req, err
	}
	if err := json.Unmarshal(payload, &req); err != nil {
		return req, err
	}
	if req.Session != session || string(req.Call) != call {
		return req, fmt.Errorf("it is for session %s, call %s, but was sent for session %s, call %s",
			req.Session, req.Call, session, call)
	}
	return req, nil
}

// repeatable reports whether both the tool and whoever asks say that the call may be executed again.
func (h toolHandler) repeatable(req schemas.ToolRequest) bool {
	return h.tool.Effect.Repeatable() && (req.Effect == "" || req.Effect.Repeatable())
}

// execute runs the tool until it ends, takes too long, is cancelled, or has to stop with the worker.
func (h toolHandler) execute(ctx context.Context, req schemas.ToolRequest) (schemas.ToolResult, bool) {
	call, kill := context.WithCancelCause(context.WithoutCancel(ctx))
	defer kill(nil)
	defer context.AfterFunc(ctx, func() { kill(h.causeOf(ctx)) })()
	defer context.AfterFunc(h.work, func() { kill(context.Cause(h.work)) })()
	defer h.cancels.begin(req.Session, req.Call, kill)()
	if call.Err() != nil {
		return schemas.ErrorResult(tools.ErrAborted.Error()), true
	}
	if req.TimeoutMs > 0 {
		limit := milliseconds(req.TimeoutMs)
		limited, cancel := context.WithTimeoutCause(call, limit, &tools.TimeLimitError{Limit: limit})
		defer cancel()
		call = limited
	}
	updates := h.startUpdates(req)
	defer updates.stop()
	result, err := h.tool.Try(call, tools.Call{
		Session: req.Session, RunID: req.RunID, TurnID: req.TurnID, Key: req.Call, ID: req.ToolCallID,
		Arguments: req.Arguments, IdempotencyKey: req.IdempotencyKey(),
	}, updates.set)
	var panicked *tools.PanicError
	if errors.As(err, &panicked) {
		h.opts.Logger.Error("tool panicked", "tool", h.tool.Name, "session", req.Session, "call", req.Call,
			"stack", string(panicked.Stack))
	}
	return tools.ResultOf(result, err)
}

// causeOf says why a message's context ended. Its only deadline is the tool's own limit.
func (h toolHandler) causeOf(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &tools.TimeLimitError{Limit: milliseconds(h.tool.TimeoutMs)}
	}
	return context.Cause(ctx)
}
