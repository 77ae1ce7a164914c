package bus

import (
	"context"
	"sync"
	"time"
)

// inHand are the messages that were received and are not settled: the ones that need signs of life.
type inHand struct {
	mu    sync.Mutex
	bySeq map[uint64]*delivery
	empty chan struct{} // closed when the last one goes; nil while nobody waits for it
}

func newInHand() *inHand { return &inHand{bySeq: map[uint64]*delivery{}} }

// add reports false if the message is in hand already: the server thought us dead and delivered it once more.
func (h *inHand) add(d *delivery) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.bySeq[d.seq] != nil {
		return false
	}
	h.bySeq[d.seq] = d
	return true
}

func (h *inHand) remove(d *delivery) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.bySeq, d.seq)
	if len(h.bySeq) == 0 && h.empty != nil {
		close(h.empty)
		h.empty = nil
	}
}

func (h *inHand) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.bySeq)
}

// emptied returns a channel that is closed as soon as nothing is in hand.
func (h *inHand) emptied() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.bySeq) == 0 {
		done := make(chan struct{})
		close(done)
		return done
	}
	if h.empty == nil {
		h.empty = make(chan struct{})
	}
	return h.empty
}

// beat tells the server every interval that all of them are being worked on, until ctx ends.
func (h *inHand) beat(ctx context.Context, interval time.Duration) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	var all []*delivery
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		all = h.list(all[:0])
		for _, d := range all {
			d.alive()
		}
		clear(all)
	}
}

func (h *inHand) list(into []*delivery) []*delivery {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range h.bySeq {
		into = append(into, d)
	}
	return into
}
