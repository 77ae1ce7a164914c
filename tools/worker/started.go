package worker

import (
	"sync"

	"github.com/ThreeDotsLabs/watermill/message"
)

// maxStarted is how many calls [startedCalls] remembers. It forgets the oldest first.
const maxStarted = 4096

// startedCalls remembers the calls of tools that are not safe to repeat that this worker has started. The delivery
// count of the server is not enough: a server that was killed may have lost the last deliveries, and counts from one
// again.
type startedCalls struct {
	mu    sync.Mutex
	calls recent[delivery] // by idempotency key
}

// delivery has the channels of a delivery. One of them is closed when the delivery is settled.
type delivery struct{ acked, nacked <-chan struct{} }

func newStartedCalls() *startedCalls { return &startedCalls{calls: newRecent[delivery](maxStarted)} }

// startedBefore reports whether an earlier delivery has started the call, and records the call. If the call was started
// before, startedBefore waits until the earlier delivery is settled, so that its answer is stored first. It stops
// waiting when the context of msg ends.
func (s *startedCalls) startedBefore(key string, msg *message.Message) bool {
	s.mu.Lock()
	before, ok := s.calls.get(key)
	s.calls.add(key, delivery{msg.Acked(), msg.Nacked()})
	s.mu.Unlock()
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
