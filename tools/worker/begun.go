package worker

import (
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"
)

// maxBegun is how many calls are remembered that must not be begun twice: the oldest go first.
const maxBegun = 4096

// begun remembers the calls of unsafe tools that were begun here. The server counts how often it has delivered a call,
// but a server that was killed may have forgotten the last deliveries, and count from one again.
type begun struct {
	mu    sync.Mutex
	calls recent[settled] // by idempotency key
}

// settled are closed, one of them, when a delivery is settled.
type settled struct{ acked, nacked <-chan struct{} }

func newBegun() *begun { return &begun{calls: newRecent[settled](maxBegun)} }

// again reports whether the call was begun before, and if it was, waits until that delivery is settled: its answer goes
// first. It waits no longer than msg may be worked on.
func (b *begun) again(key string, msg *message.Message) bool {
	b.mu.Lock()
	before, ok := b.calls.get(key)
	b.calls.add(key, settled{msg.Acked(), msg.Nacked()})
	b.mu.Unlock()
	if !ok {
		return false
	}
	select {
	case <-before.acked:
	case <-before.nacked:
	case <-msg.Context().Done():
	}
	return true
}
