// Package backlog keeps the messages of a subscription that their readers have not taken yet, in bounded memory: one
// subscription serves many readers, and a slow one must not block the others.
package backlog

import (
	"sync"

	"github.com/nats-io/nats.go"
)

// A Queue has the messages for one reader. It drops messages beyond its limit and that of its quota; the reader has to
// detect that, if it matters. What the reader has taken counts in the quota until it calls Release. A Queue is safe for
// concurrent use, with one reader.
type Queue struct {
	limit int // in bytes
	quota *Quota
	more  chan struct{} // has an element after Add and Wake

	mu     sync.Mutex
	msgs   []*nats.Msg
	bytes  int // of msgs
	taken  int // bytes that the reader has taken and not released
	closed bool
}

// New returns a queue that takes messages while it has fewer than limit bytes.
func New(limit int, quota *Quota) *Queue {
	return &Queue{limit: limit, quota: quota, more: make(chan struct{}, 1)}
}

// Add adds a message. If the quota is used up it drops the message of a queue that holds share bytes of it. A queue
// below its share gets its messages, whatever is sent to others.
func (b *Queue) Add(m *nats.Msg, share int) {
	b.mu.Lock()
	n := m.Size()
	if !b.closed && b.bytes < b.limit && b.quota.reserve(n, b.bytes+b.taken < share) {
		b.bytes += n
		b.msgs = append(b.msgs, m)
	}
	b.mu.Unlock()
	b.Wake()
}

// Wake makes More readable.
func (b *Queue) Wake() {
	select {
	case b.more <- struct{}{}:
	default:
	}
}

// More is readable after Add and Wake. The reader then takes all messages, or calls Wake for the rest.
func (b *Queue) More() <-chan struct{} { return b.more }

// Len returns how many messages wait.
func (b *Queue) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.msgs)
}

// Take returns the oldest message, nil if there is none.
func (b *Queue) Take() *nats.Msg {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.msgs) == 0 {
		return nil
	}
	m := b.msgs[0]
	b.bytes -= m.Size()
	b.taken += m.Size()
	if b.msgs = b.msgs[1:]; len(b.msgs) == 0 {
		b.msgs = nil
	}
	return m
}

// Release returns to the quota what the reader has taken.
func (b *Queue) Release() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.quota.release(b.taken)
	b.taken = 0
}

// Close drops all messages, and all that are added later.
func (b *Queue) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.quota.release(b.bytes + b.taken)
	b.msgs, b.bytes, b.taken, b.closed = nil, 0, 0, true
}

// A Quota bounds the bytes of several queues together. It is safe for concurrent use.
type Quota struct {
	limit int

	mu    sync.Mutex
	bytes int
}

// NewQuota returns a quota of limit bytes.
func NewQuota(limit int) *Quota { return &Quota{limit: limit} }

// Share returns the share of each of so many queues.
func (q *Quota) Share(queues int) int { return q.limit / max(queues, 1) }

// reserve reserves n bytes. It returns false, and reserves nothing, if that would exceed the limit, but not for a queue
// that is below its share of it.
func (q *Quota) reserve(n int, below bool) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.bytes+n > q.limit && !below {
		return false
	}
	q.bytes += n
	return true
}

func (q *Quota) release(n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes -= n
}
