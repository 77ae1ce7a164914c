package driver_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

// TestArgumentsOfServicesAreBounded has a service replace the arguments of many calls by large ones. Those beyond what
// a reply may have are blocked.
func TestArgumentsOfServicesAreBounded(t *testing.T) {
	t.Parallel()
	const size, calls = 1 << 20, 20
	args := []byte(`{"v":"` + strings.Repeat("x", size-len(`{"v":""}`)) + `"}`)
	asked := 0
	service := func(context.Context, schemas.HookRef, schemas.HookRequest) (schemas.HookAnswer, error) {
		asked++
		return schemas.HookAnswer{Args: args, Ask: true}, nil
	}
	var ids []string
	for i := range calls {
		ids = append(ids, fmt.Sprint("t", i))
	}
	r := looptest.New(t, looptest.ToolThenDone(ids...), served(service, schemas.HookBeforeToolCall))
	r.Deliver("p1", looptest.Prompt("go"))
	wait, blocked := 0, 0
	for _, e := range r.Events() {
		switch d := e.Data.(type) {
		case *schemas.ApprovalRequested:
			wait++
		case *schemas.HookDecision:
			if d.Block {
				blocked++
				if d.Args != nil || d.Ask || !strings.Contains(d.Reason, "services have given to the calls of this turn") {
					t.Errorf("blocked with %d bytes, asks %v: %s", len(d.Args), d.Ask, d.Reason)
				}
			}
		}
	}
	if want := loop.MaxDecidedArgs / size; wait != want || blocked != calls-want || asked != calls {
		t.Errorf("%d calls wait and %d are blocked after %d questions, want %d and %d", wait, blocked, asked, want,
			calls-want)
	}
}
