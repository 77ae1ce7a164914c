package lifecycle_test

import (
	"strings"
	"testing"

	"github.com/loopbus/loopbus/bus/bridge/lifecycle"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// A projection names the messages of the context, and does not keep them.
func TestProjectionsKeepNoContents(t *testing.T) {
	t.Parallel()
	m := &schemas.UserMessage{Content: schemas.Contents{schemas.Text{Text: strings.Repeat("x", 1<<20)}}}
	p := lifecycle.From(loop.State{Session: "s1", Seq: 1,
		Messages: []loop.Entry{{ID: "m1", Message: schemas.AnyMessage{Message: m}}}})
	for seq, data := range []schemas.EventData{&schemas.AgentStart{}, &schemas.TurnStart{}} {
		e := &schemas.Event{Session: "s1", Seq: uint64(seq) + 2, RunID: "r1", TurnID: "t1", Data: data}
		if _, err := p.Apply(client.Item{Event: e}); err != nil {
			t.Fatal(err)
		}
	}
	if n := p.State().Bytes(); n > 1<<10 || p.Bytes() > 1<<10 || p.State().Messages[0].ID != "m1" {
		t.Errorf("the state has %d bytes: %+v", n, p.State().Messages)
	}
}
