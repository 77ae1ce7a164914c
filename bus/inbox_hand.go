package bus

import (
	"context"
	"slices"
	"sync"
	"time"
)

// inHand are the messages that were received and are not settled: the ones that need signs of life.
type inHand struct {
	mu    sync.Mutex
	bySeq map[uint64]*delivery
	acked []uint64 // sequences of the newest messages acknowledged, in a ring
	next  int
	empty chan struct{} // closed when the last one goes; nil while nobody waits for it
}

func newInHand() *inHand { return &inHand{bySeq: map[uint64]*delivery{}} }

// add reports false if the message is in hand already: the server thought us dead and delivered it once more.
func (h *inHand) add(d *delivery) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if before := h.bySeq[d.seq]; before != nil && !before.gone() {
		return false
	}
	h.bySeq[d.seq] = d
	return true
}

// silent returns what is in hand of a message if the servers have not heard of it for so long that another runner may have had
// the message meanwhile; or nil.
func (h *inHand) silent(seq uint64) *delivery {
	h.mu.Lock()
	defer h.mu.Unlock()
	if d := h.bySeq[seq]; d != nil && d.isSilent() {
		return d
	}
	return nil
}

// ackedSize is how many acknowledged messages are remembered. It has to cover those of which another copy may have been on
// its way.
const ackedSize = 1024

// acknowledged takes out a message that is about to be acknowledged.
func (h *inHand) acknowledged(d *delivery) {
	h.mu.Lock()
	if len(h.acked) < ackedSize {
		h.acked = append(h.acked, d.seq)
	} else {
		h.acked[h.next] = d.seq
		h.next = (h.next + 1) % ackedSize
	}
	h.mu.Unlock()
	h.remove(d)
}

// wasAcked reports whether a message is a copy of one that was acknowledged here a moment ago.
func (h *inHand) wasAcked(d *delivery) bool {
	if d.count < 2 {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Contains(h.acked, d.seq)
}

// has reports whether the message with a sequence is in hand.
func (h *inHand) has(seq uint64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.bySeq[seq] != nil
}

func (h *inHand) remove(d *delivery) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.bySeq[d.seq] != d {
		return // another delivery of it has taken its place
	}
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

// beat tells the server three times in ackWait that all of them are being worked on, until ctx ends. flush returns once the
// server has what was sent.
//
// Where no sign of life has reached the server for as long as it waits, because this process was suspended or cut off, the
// messages may be another runner's by now. Then there are no more: from here they would keep a message from whoever should have
// it when that other runner is lost, for as long as a handler of ours waits for a model that says nothing.
func (h *inHand) beat(ctx context.Context, ackWait time.Duration, flush func(context.Context) error) {
	interval := ackWait / 3
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
		sent := time.Now()
		for _, d := range all {
			d.alive(ackWait)
		}
		if len(all) > 0 && flushWithin(ctx, interval, flush) == nil {
			for _, d := range all {
				d.heardAt(sent, ackWait)
			}
		}
		clear(all)
	}
}

func flushWithin(ctx context.Context, limit time.Duration, flush func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return flush(ctx)
}

func (h *inHand) list(into []*delivery) []*delivery {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, d := range h.bySeq {
		into = append(into, d)
	}
	return into
}
