package driver_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

// A session that was deleted and created again repeats message ids. Its replies must be counted although counters
// remember ids for ten minutes.
func TestRecreatedSessionIsCountedAgain(t *testing.T) {
	t.Parallel()
	var ids []string
	hi := looptest.ModelFunc(func(context.Context, schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		return looptest.Say("hi"), nil
	})
	for _, at := range []time.Time{time.Now().Add(-time.Minute), time.Now()} {
		c := newCounters()
		close(c.free)
		r := looptest.New(t, using(hi, at), team(c))
		r.Deliver("p1", looptest.Prompt("go"))
		if replyID(r) == "" || len(c.ids) != 1 {
			t.Fatalf("counted: %v", c.ids)
		}
		ids = append(ids, c.ids...)
	}
	if slices.Sort(ids); len(slices.Compact(ids)) != 2 {
		t.Errorf("two replies have the id %s", ids[0])
	}
}
