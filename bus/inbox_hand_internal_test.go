package bus

import (
	"context"
	"testing"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// A copy of a message that was on its way when the first was acknowledged must not be handled: it is out of the queue, and a
// session that it wakes could not be woken elsewhere.
func TestACopyOfAnAcknowledgedMessageIsKnown(t *testing.T) {
	h := newInHand()
	first := &delivery{seq: 7, count: 1}
	copied := &delivery{seq: 7, count: 2}
	if !h.add(first) || h.add(copied) || h.wasAcked(copied) {
		t.Fatal("a message is in hand once, and not acknowledged")
	}
	h.acknowledged(first)
	if !h.wasAcked(copied) || h.count() != 0 {
		t.Error("the copy of an acknowledged message is not known")
	}
	again := &delivery{seq: 8, count: 1}
	h.add(again)
	h.remove(again)
	if h.wasAcked(&delivery{seq: 8, count: 2}) {
		t.Error("a message that was given back counts as acknowledged")
	}
	for seq := range uint64(ackedSize) {
		h.acknowledged(&delivery{seq: 100 + seq})
	}
	if h.wasAcked(copied) || len(h.acked) != ackedSize {
		t.Errorf("%d messages are remembered", len(h.acked))
	}
}

// A session that has been handed over often waits no longer for its next runner than one that has not.
func TestWhatIsGivenBackDoesNotWaitForLong(t *testing.T) {
	sub := &inboxSubscriber{draining: make(chan struct{})}
	d := &delivery{count: 12, partition: &partition{sub: sub, over: make(chan struct{})}}
	d.longestDelay.Store(int64(maxNackDelay))
	for _, c := range []struct {
		err  error
		want time.Duration
	}{
		{nil, maxNackDelay}, {schemas.ErrConflict, maxConflictDelay}, {context.Canceled, 0}, {errGivenBack, 0},
	} {
		if c.err != nil {
			d.giveBack(c.err)
		}
		if got := d.retryDelay(); got != c.want {
			t.Errorf("after %v it waits %s, want %s", c.err, got, c.want)
		}
	}
	d.giveBack(schemas.ErrConflict)
	close(sub.draining)
	if got := d.retryDelay(); got != 0 {
		t.Errorf("given back by a runner that stops it waits %s", got)
	}
}
