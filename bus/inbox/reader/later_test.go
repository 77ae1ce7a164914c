package reader_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loopbus/loopbus/bus/inbox/reader"
	"github.com/loopbus/loopbus/schemas"
)

// full is a handler that has no memory for a message, and finds that out after some time.
type full struct {
	model
	waits time.Duration
}

func (h *full) Deliver(context.Context, *reader.Message, func()) error {
	h.mu.Lock()
	h.started++
	h.mu.Unlock()
	time.Sleep(h.waits)
	return schemas.ErrLater
}

// What there is no memory for is read again at growing distances, as that costs something, unless it has waited.
func TestMessagesForLaterAreReadSeldom(t *testing.T) {
	t.Parallel()
	for waits, want := range map[time.Duration]int{0: 19, time.Second: 50} {
		t.Run(fmt.Sprint(waits), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q, h := newQueue(), &full{waits: waits}
				r := run(t, 1, alone{}, q, h)
				r.Receive(<-q.created, 1, &reader.Message{Seq: 1, Session: "s1", Body: kept{}}, "reply")
				time.Sleep(100 * time.Second)
				if got := h.deliveries(); got < want-3 || got > want+3 {
					t.Errorf("%d deliveries in 100 s, want about %d", got, want)
				}
			})
		})
	}
}
