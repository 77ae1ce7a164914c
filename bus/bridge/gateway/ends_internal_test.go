package gateway

import (
	"testing"

	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// A client may subscribe when all of a run but its end is over. It gets the end.
func TestTheEndAfterALateSubscription(t *testing.T) {
	t.Parallel()
	state := loop.State{Session: "s1", Seq: 8, Run: &loop.Run{ID: "r1", Command: "k1"}}
	var got []chat
	v := newView("s1", &state, false, func(_ string, payload any) error {
		if c, ok := payload.(chat); ok {
			got = append(got, c)
		}
		return nil
	})
	end := schemas.Event{Session: "s1", Seq: 9, RunID: "r1",
		Data: &schemas.AgentEnd{TerminationReason: schemas.EndNoToolCalls}}
	if err := state.Apply(end); err != nil {
		t.Fatal(err)
	}
	if err := v.take(client.Item{Event: &end}); err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].RunID != "k1" || got[0].State != "final" {
		t.Errorf("the events are %+v", got)
	}
}
