package turns

import "context"

type gateKey struct{}

// A Gate is asked before so many bytes are loaded. It may wait; its error, such as that of ctx, ends the load.
type Gate func(ctx context.Context, bytes int) error

// WithGate returns a context whose loads ask the gate.
func WithGate(ctx context.Context, g Gate) context.Context {
	return context.WithValue(ctx, gateKey{}, g)
}

// Pass asks the gate of a context, if there is one, before so many bytes are loaded. Whoever loads for a caller calls
// it with the context of the caller.
func Pass(ctx context.Context, bytes int) error {
	if g, ok := ctx.Value(gateKey{}).(Gate); ok {
		return g(ctx, bytes)
	}
	return nil
}
