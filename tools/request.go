package tools

import (
	"context"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// CallOf returns the call that a request asks for, wherever it is executed.
func CallOf(req schemas.ToolRequest) Call {
	return Call{
		Session: req.Session, RunID: req.RunID, TurnID: req.TurnID, Key: req.Call, ID: req.ToolCallID,
		Arguments: req.Arguments, IdempotencyKey: req.IdempotencyKey(),
		NoSession: req.ReplyTo != "",
	}
}

// WithLimit returns the context for the call that a request asks for: it ends after the request's time limit, with a
// [TimeLimitError] as its cause. Without a limit it is ctx.
func WithLimit(ctx context.Context, req schemas.ToolRequest) (context.Context, context.CancelFunc) {
	if req.TimeoutMs <= 0 {
		return ctx, func() {}
	}
	limit := time.Duration(req.TimeoutMs) * time.Millisecond
	return context.WithTimeoutCause(ctx, limit, &TimeLimitError{Limit: limit})
}
