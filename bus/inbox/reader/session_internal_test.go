package reader

import (
	"testing"
	"testing/synctest"
)

type content struct{ dropped bool }

func (c *content) DropPayload() bool { c.dropped = true; return true }

// TestWaitingMessageDropsItsPayload checks that a message that cannot start at once drops its payload, and that it is
// refetched before it starts, however soon that is.
func TestWaitingMessageDropsItsPayload(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // a bubble, in which no time passes that makes messages old
		r := New(Options{MaxSessions: 1})
		r.work, r.consumer, r.start = t.Context(), new(Consumer), func(*delivery) {}
		var contents [3]content
		for i, session := range []string{"at work", "at work", "waits"} {
			seq := uint64(i) + 1
			r.Receive(r.consumer, seq, &Message{Seq: seq, Session: session, Body: &contents[i]}, "")
		}
		for i, waits := range []bool{false, true, true} {
			if _, check := r.mayStart(r.deliveries[uint64(i)+1], false); contents[i].dropped != waits || check != waits {
				t.Errorf("message %d: dropped %v, checked %v, want %v", i+1, contents[i].dropped, check, waits)
			}
		}
	})
}
