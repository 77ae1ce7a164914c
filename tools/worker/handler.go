package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/pubsub"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
)

// toolHandler handles the calls of one tool.
type toolHandler struct {
	*Worker
	tool tools.Tool
}

// handle executes a call and returns its answer for the [answerer] to store. It returns an error if the call cannot be
// answered.
func (h toolHandler) handle(msg *message.Message) ([]*message.Message, error) {
	raw, ok := pubsub.RawMessage(msg)
	if !ok {
		return nil, errors.New("worker: the subscriber delivered a message that is not from JetStream")
	}
	md, err := raw.Metadata()
	if err != nil {
		return nil, fmt.Errorf("worker: call at %s: %w", raw.Subject(), err)
	}
	queue, session, call, err := h.opts.Subjects.ParseTool(raw.Subject())
	if err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	req, err := h.parse(msg.Payload, queue, session, call)
	tool := h.metrics.tool(h.tool.Name)
	nonce, requested := nonceOf(raw, session, call)
	if err != nil && !requested {
		// No runner sent this message: a NATS server published a reply at this subject (docs/protocol.md). A call may
		// have the same subject, and an answer here would count as the answer to that call.
		tool.rejected(rejectForeign)
		return nil, fmt.Errorf("worker: the message at %s is no call: %w", raw.Subject(), err)
	}
	if err != nil {
		h.opts.Logger.Warn("malformed tool call", "tool", queue.String(), "session", session, "call", call, "err", err)
		tool.rejected(rejectMalformed)
		req = schemas.ToolRequest{Session: session, Call: schemas.CallKey(call), ToolName: h.tool.Name, Nonce: nonce}
		return h.answer(msg, req, schemas.ErrorResult("The request of this call was malformed: "+err.Error()), true, 0)
	}
	if !h.repeatable(req) && (h.started.startedBefore(req.IdempotencyKey(), msg) || md.NumDelivered > 1) {
		tool.rejected(rejectUnsafe)
		return h.answer(msg, req, schemas.ErrorResult(schemas.TextOutcomeUnknown), true, 0)
	}
	if h.abandoned(req) {
		tool.rejected(rejectAbandoned)
		h.opts.Logger.Warn("tool call dropped: no caller waits for its answer", "tool", h.tool.Name,
			"session", session, "call", call)
		return nil, nil
	}
	start := time.Now()
	tool.begin()
	result, outcome := h.execute(msg.Context(), req)
	took := time.Since(start)
	tool.end(outcome, took)
	return h.answer(msg, req, result, outcome != outcomeOK, took)
}

// nonceOf returns the nonce in the Nats-Msg-Id of a request, <session>/<call>/<nonce>, "" if it ends before that. It
// returns false if a runner gives requests no such id.
func nonceOf(raw jetstream.Msg, session, call string) (nonce string, requested bool) {
	rest, found := strings.CutPrefix(raw.Headers().Get(jetstream.MsgIDHeader), session+"/"+call)
	if !found || rest == "" {
		return "", found
	}
	nonce, found = strings.CutPrefix(rest, "/")
	return nonce, found && schemas.CheckToken("nonce", nonce) == nil
}

// parse decodes a request and checks that it matches its subject, because the server's permissions protect only the
// subject. A request is malformed if its replyTo is a subject where no worker may publish.
func (w *Worker) parse(payload []byte, queue schemas.ToolQueue, session, call string) (schemas.ToolRequest, error) {
	req, err := schemas.ParseToolRequest(payload)
	if err != nil {
		return req, err
	}
	if req.Queue() != queue {
		return req, fmt.Errorf("it is for tool %s, but was sent for tool %s", req.Queue(), queue)
	}
	if req.Session != session || string(req.Call) != call {
		return req, fmt.Errorf("it is for session %s, call %s, but was sent for session %s, call %s",
			req.Session, req.Call, session, call)
	}
	if req.ReplyTo != "" {
		if err := w.opts.Subjects.CheckReply(req.ReplyTo); err != nil {
			return req, fmt.Errorf("replyTo: %w", err)
		}
	}
	return req, nil
}

// repeatable reports whether the effect classes of both the tool and the request allow that the call is executed again.
func (h toolHandler) repeatable(req schemas.ToolRequest) bool {
	return h.tool.EffectClass().Repeatable() && (req.Effect == "" || req.Effect.Repeatable())
}

// execute runs the tool until it returns, exceeds its time limit, or is cancelled by a client or by the shutdown of the
// worker.
func (h toolHandler) execute(ctx context.Context, req schemas.ToolRequest) (result schemas.ToolResult, outcome string) {
	ctx, end := h.opts.Trace(ctx, req)
	defer func() { end(outcome) }()
	call, kill := context.WithCancelCause(context.WithoutCancel(ctx))
	defer kill(nil)
	defer context.AfterFunc(ctx, func() { kill(h.causeOf(ctx)) })()
	defer context.AfterFunc(h.work, func() { kill(context.Cause(h.work)) })()
	defer h.cancels.begin(req, kill)()
	if call.Err() != nil {
		return schemas.ErrorResult(tools.ErrAborted.Error()), outcomeCancelled
	}
	call, cancel := tools.WithLimit(call, req)
	defer cancel()
	updates := h.startUpdates(req)
	defer updates.stop()
	result, err := h.run(call, req, updates.set)
	var panicked *tools.PanicError
	if errors.As(err, &panicked) {
		h.opts.Logger.Error("tool panicked", "tool", h.tool.Name, "session", req.Session, "call", req.Call,
			"stack", string(panicked.Stack))
	}
	outcome = outcomeOf(call, err)
	result, _ = tools.ResultOf(result, err)
	return result, outcome
}

// run runs the tool. If the tool does not return within AbandonAfter of its cancellation, run abandons it and returns
// an error, so that the session does not wait for ever.
func (h toolHandler) run(call context.Context, req schemas.ToolRequest,
	update func(schemas.ToolResult)) (schemas.ToolResult, error) {
	type outcome struct {
		result schemas.ToolResult
		err    error
	}
	done := make(chan outcome, 1)
	go func() {
		result, err := h.tool.Try(call, tools.CallOf(req), update)
		done <- outcome{result, err}
	}()
	select {
	case o := <-done:
		return o.result, o.err
	case <-call.Done():
	}
	abandon := time.NewTimer(h.opts.AbandonAfter)
	defer abandon.Stop()
	select {
	case o := <-done:
		return o.result, o.err
	case <-abandon.C:
	}
	h.opts.Logger.Error("tool abandoned: it did not stop when its call was cancelled", "tool", h.tool.Name,
		"session", req.Session, "call", req.Call)
	return schemas.ToolResult{}, fmt.Errorf("%w. It did not stop when it was told to: it may still be running",
		tools.Interrupted(call))
}

// causeOf returns why a message's context ended. The only deadline of such a context is the tool's own time limit.
func (h toolHandler) causeOf(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &tools.TimeLimitError{Limit: schemas.Milliseconds(h.tool.TimeoutMs)}
	}
	return context.Cause(ctx)
}
