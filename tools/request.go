package tools

import (
	"context"

	"github.com/loopbus/loopbus/schemas"
)

// CallOf returns the call for a request, independent of where it is executed.
func CallOf(req schemas.ToolRequest) Call {
	return Call{
		Session: req.Session, RunID: req.RunID, TurnID: req.TurnID, Key: req.Call, ID: req.ToolCallID,
		Arguments: req.Arguments, IdempotencyKey: req.IdempotencyKey(),
		NoSession: req.ReplyTo != "", Revision: req.Revision,
	}
}

// WithLimit returns a context for the call of a request. It ends after the request's time limit, with a
// [TimeLimitError] as its cause. Without a limit it is ctx.
func WithLimit(ctx context.Context, req schemas.ToolRequest) (context.Context, context.CancelFunc) {
	if req.TimeoutMs <= 0 {
		return ctx, func() {}
	}
	limit := schemas.Milliseconds(req.TimeoutMs)
	return context.WithTimeoutCause(ctx, limit, &TimeLimitError{Limit: limit})
}
