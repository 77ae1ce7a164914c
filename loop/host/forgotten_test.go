package host_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

// A cluster may lose the deletion of a message that was acknowledged, and deliver the message again when the session
// has forgotten the command. It changes nothing, whatever the outcome was. A message that a consumer had skipped is as
// old, and is carried out.
func TestASettledCommandThatComesBackChangesNothing(t *testing.T) {
	t.Parallel()
	answer := func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		return looptest.Say("hello"), nil
	}
	r := looptest.New(t, looptest.ModelFunc(answer))
	deliver := func(c schemas.Command, seq uint64) {
		t.Helper()
		c.InboxPosition = schemas.InboxPosition{Inbox: "here", StreamSeq: seq}
		if err := r.Host.Deliver(t.Context(), c, nil); err != nil {
			t.Fatalf("deliver %s: %v", c.ID, err)
		}
	}
	deliver(looptest.Command("refused", &schemas.Abort{}), 1)
	deliver(looptest.Command("prompt", looptest.Prompt("go")), 2)
	reject := schemas.CommandRejected{CommandID: "broken", Kind: "dance", Code: schemas.RejectUnknown, Reason: "no",
		InboxPosition: schemas.InboxPosition{Inbox: "here", StreamSeq: 3}}
	if err := r.Host.Reject(t.Context(), "s1", reject); err != nil {
		t.Fatal(err)
	}
	const skipped = 4
	for n := range uint64(loop.MaxKnown + 50) {
		deliver(looptest.Command(fmt.Sprint("n", n), &schemas.Name{Name: fmt.Sprint(n)}), skipped+1+n)
	}
	for _, what := range []string{"the host that has the session", "another host"} {
		before := len(r.Events())
		deliver(looptest.Command("refused", &schemas.Abort{}), 1)
		deliver(looptest.Command("prompt", looptest.Prompt("go")), 2)
		if err := r.Host.Reject(t.Context(), "s1", reject); err != nil {
			t.Fatal(err)
		}
		deliver(looptest.Command("n0", &schemas.Name{Name: "0"}), skipped+1)
		if more := r.Types()[before:]; len(more) != 0 {
			t.Errorf("%s: settled commands that came back led to %v", what, more)
		}
		r.Host = r.NewHost(nil)
	}
	deliver(looptest.Command("skipped", &schemas.Name{Name: "late"}), skipped)
	if e := r.Events(); e[len(e)-2].CausationID != "skipped" {
		t.Errorf("a message that was skipped is lost, the log ends with %v", e[len(e)-2:])
	}
	// An inbox that was created again counts from one.
	c := looptest.Command("elsewhere", &schemas.Name{Name: "new"})
	c.InboxPosition = schemas.InboxPosition{Inbox: "there", StreamSeq: 1}
	if err := r.Host.Deliver(t.Context(), c, nil); err != nil {
		t.Fatal(err)
	}
	// The inbox from before may be restored from a backup then, with what was settled since.
	before := len(r.Events())
	deliver(looptest.Command("n0", &schemas.Name{Name: "0"}), skipped+1)
	if more := r.Types()[before:]; len(more) != 0 {
		t.Errorf("a settled command of a restored inbox led to %v", more)
	}
	for _, e := range r.Events() {
		d, ok := e.Data.(*schemas.CommandAccepted)
		if !ok {
			continue
		}
		named := d.CommandID == "elsewhere"
		if named != (d.Inbox != "") || d.StreamSeq == 0 {
			t.Errorf("%s has position %+v", d.CommandID, d.InboxPosition)
		}
	}
}
