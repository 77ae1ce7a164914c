package registry

import (
	"context"

	"github.com/loopbus/loopbus/schemas"
)

// Follow calls f with the definitions, as of [Toolbox.Definitions], now and whenever announcements have changed, until
// ctx ends. Changes that come while f runs are one; a renewed announcement is a change that changes nothing. The
// definitions' parts are shared and must not be changed.
func (t *Toolbox) Follow(ctx context.Context, f func([]schemas.ToolDefinition)) {
	for {
		t.mu.Lock()
		changed := t.changed
		t.mu.Unlock()
		defs, err := t.Definitions(ctx)
		if err != nil {
			return // only because ctx ended
		}
		f(defs)
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}
