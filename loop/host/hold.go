package host

import (
	"context"
	"sync"
)

// held is a session that [Host.Hold] has loaded for a delivery.
type held struct {
	*entry
	release func()
}

type heldKey struct{}

// waitsKey is the context key of the function that is called before a load may have to wait.
type waitsKey struct{}

// mayWait says that what is done with ctx may have to wait for a session.
func mayWait(ctx context.Context) {
	if waits, ok := ctx.Value(waitsKey{}).(func()); ok {
		waits()
	}
}

// Hold loads a session for a delivery, once there is memory for it. It calls waits, perhaps repeatedly, before it may
// have to wait: a large command need not be in memory meanwhile. [Host.Deliver] with the context that Hold returns uses
// what is loaded. The caller calls release when Deliver has returned. The errors are those of Deliver for a session
// that cannot be loaded.
func (h *Host) Hold(ctx context.Context, session string, waits func()) (
	holding context.Context, release func(), err error,
) {
	err = h.do(session, func() error {
		e, _, err := h.acquire(context.WithValue(ctx, waitsKey{}, waits), session)
		if err != nil {
			return err
		}
		h.work.Add(1) // [Host.Close] waits for the release
		release = sync.OnceFunc(func() {
			defer h.work.Done()
			h.leave(ctx, e, false)
		})
		holding = context.WithValue(ctx, heldKey{}, held{e, release})
		return nil
	})
	return holding, release, err
}

// unhold releases the session that is held for the delivery of ctx, as the delivery has it by itself now.
func unhold(ctx context.Context, session string) {
	if held, ok := ctx.Value(heldKey{}).(held); ok && held.session == session {
		held.release()
	}
}

// unholdLost releases the entry that is held for the delivery of ctx if e has taken its place: e may wait for the
// memory that the held one has.
func unholdLost(ctx context.Context, e *entry) {
	if held, ok := ctx.Value(heldKey{}).(held); ok && held.session == e.session && held.entry != e {
		held.release()
	}
}
