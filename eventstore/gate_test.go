package eventstore_test

import (
	"context"
	"errors"
	"testing"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas/turns"
)

// Readers can have what they load wait: the gate of the context is asked for each event, with its size, before its
// payload is fetched.
func TestAGateIsAskedBeforePayloadsAreLoaded(t *testing.T) {
	t.Parallel()
	s, _ := newJetStream(t, eventstore.Options{})
	l := open(t, s, "s1")
	mustAppend(t, l, event("s1", 1, "a"), bigEvent("s1", 2))
	var asked []int
	closed := errors.New("closed")
	ctx := turns.WithGate(ctxOf(t), func(_ context.Context, bytes int) error {
		asked = append(asked, bytes)
		if len(asked) == 3 {
			return closed
		}
		return nil
	})
	wantSeqs(t, "the log", seqs(t, l.Read(ctx, 1)), 2)
	if len(asked) != 2 || asked[0] == 0 || asked[0] > 1000 || asked[1] < 256<<10 {
		t.Errorf("asked for %d bytes", asked)
	}
	for _, err := range l.Read(ctx, 2) {
		if !errors.Is(err, closed) {
			t.Errorf("an event that the gate refuses: %v", err)
		}
	}
}
