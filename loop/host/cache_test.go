package host_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

// Sessions at rest stay in memory as long as they take little together.
func TestSessionsAtRestAreBoundedInBytes(t *testing.T) {
	t.Parallel()
	done := looptest.ModelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		return looptest.Say("ok"), nil
	})
	for _, tt := range []struct{ size, loaded int }{{10, 5}, {100 << 10, 2}, {1 << 20, 0}} {
		r := looptest.New(t, done, func(o *host.Options) { o.CacheBytes = 300 << 10 })
		for n := range 5 {
			c := looptest.Command("p1", looptest.Prompt(strings.Repeat("x", tt.size)))
			c.Session = fmt.Sprintf("s%d", n)
			if err := r.Host.Deliver(t.Context(), c, nil); err != nil {
				t.Fatal(err)
			}
		}
		if n := r.Host.Loaded(); n != tt.loaded {
			t.Errorf("%d sessions of %d bytes are loaded, want %d", n, tt.size, tt.loaded)
		}
	}
}
