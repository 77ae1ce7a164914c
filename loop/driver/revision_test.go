package driver_test

import (
	"context"
	"testing"

	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

// turning announces echo with a revision that changes.
type turning struct {
	looptest.EchoBox
	revision string
}

func (b *turning) Definitions(ctx context.Context) ([]schemas.ToolDefinition, error) {
	list, err := b.EchoBox.Definitions(ctx)
	for i := range list {
		list[i].Revision = b.revision
	}
	return list, err
}

// A call that was approved names the revision that the run started with, whatever is announced since, and in whatever
// process.
func TestACallNamesTheRevisionThatItsRunBeganWith(t *testing.T) {
	t.Parallel()
	box := &turning{revision: "before"}
	r := looptest.New(t, nil)
	next := func(id string, data schemas.CommandData) {
		t.Helper()
		r.Host = r.NewHost(looptest.ToolThenDone("t1"), asking, func(o *host.Options) { o.Toolbox = box })
		r.Deliver(id, data)
	}
	next("p1", looptest.Prompt("go"))
	box.revision = "after"
	next("a1", &schemas.Approve{ApprovalAnswer: decision("c9", "ann", "")})
	out := wantDispatched(r, "t1")
	if out[0].Revision != "before" {
		t.Errorf("the call is for the revision %q", out[0].Revision)
	}
}
