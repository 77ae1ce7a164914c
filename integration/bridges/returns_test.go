package bridges_test

import (
	"bytes"
	"strconv"
	"testing"

	"github.com/loopbus/loopbus/bus/bridge/lifecycle"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/schemas"
)

// derived is a frame of the eleven events, and the sequence of the event of the log that it is derived from.
type derived struct {
	lifecycle.Event
	seq uint64
}

// frames returns the frames that follow from a session's log alone.
func (r *rig) frames(session string) (all []derived) {
	r.t.Helper()
	var p lifecycle.Projection
	for e, err := range r.client.Session(session).History(r.t.Context(), 1) {
		if err != nil {
			r.t.Fatal(err)
		}
		events, err := p.Apply(client.Item{Event: &e})
		if err != nil {
			r.t.Fatal(err)
		}
		for _, event := range events {
			all = append(all, derived{event, e.Seq})
		}
	}
	return all
}

// A viewer whose connection ends behind any frame, and that returns with its state version, gets every later frame,
// also those of the same event of the log. Of that one it may get the earlier ones again.
func TestAViewerThatReturns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for session, prompt := range map[string]string{"s1": "tool please", "s2": "fail", "s3": "flaky"} {
		r.Prompt(t, session, prompt)
		r.Until(t, session, "the end of the run", system.Ends(1))
		log := r.frames(session)
		for n, last := range log[:len(log)-1] {
			after := strconv.FormatUint(last.StateVersion, 10)
			first := 0
			for first <= n && log[first].seq <= last.StateVersion {
				first++
			}
			c := r.chat("?session="+session+"&stateVersion="+after, nil)
			for _, want := range log[first:] {
				payload, err := schemas.Marshal(want.Payload)
				got := c.next()
				if err != nil || got.Event != want.Name || !bytes.Equal(got.Payload, payload) ||
					string(got.StateVersion) != strconv.FormatUint(want.StateVersion, 10) {
					t.Fatalf("%s, behind %s of event %d with the state version %s, comes %s of %s: %s, want %s of event %d: %s",
						session, last.Name, last.seq, after, got.Event, got.StateVersion, got.Payload, want.Name, want.seq, payload)
				}
			}
			_ = c.ws.CloseNow()
		}
	}
}
