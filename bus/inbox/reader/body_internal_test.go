package reader

import (
	"testing"
	"testing/synctest"
)

type content struct{ gone bool }

func (c *content) LetGo() bool { c.gone = true; return true }

// What a message that has to wait says is let go, and it is looked for before it begins, however soon that is.
func TestWhatWaitsIsLetGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // where no time passes that makes messages old
		r := New(Options{MaxSessions: 1})
		r.work, r.consumer, r.start = t.Context(), new(Consumer), func(*flight) {}
		var contents [3]content
		for i, session := range []string{"at work", "at work", "waits"} {
			seq := uint64(i) + 1
			r.Receive(r.consumer, seq, &Message{Seq: seq, Session: session, Body: &contents[i]}, "")
		}
		for i, waits := range []bool{false, true, true} {
			if _, look := r.begins(r.flights[uint64(i)+1], false); contents[i].gone != waits || look != waits {
				t.Errorf("message %d was let go: %v, is looked for: %v", i+1, contents[i].gone, look)
			}
		}
	})
}
