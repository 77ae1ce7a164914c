package bridges_test

import (
	"encoding/json"
	"fmt"
	"testing"
)

// A client that is subscribed to the list of sessions is told of each that changes, also when the list was empty and
// many begin at once.
func TestEverySessionThatChangesIsTold(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.connected(nil)
	if a := c.request("sessions.subscribe", map[string]any{}); !a.OK {
		t.Fatalf("sessions.subscribe: %+v", a)
	}
	untold := map[string]bool{}
	for round := range 2 {
		for i := range 20 {
			session := fmt.Sprintf("s%d", i)
			untold[session] = true
			r.Prompt(t, session, fmt.Sprint("hello ", round))
		}
		c.until(func(f frame) bool {
			var changed struct{ SessionKey string }
			if f.Event == "sessions.changed" && json.Unmarshal(f.Payload, &changed) == nil {
				delete(untold, changed.SessionKey)
			}
			return len(untold) == 0
		})
	}
}
