// Package held bounds the memory that all unfinished replies of the process hold together. Each reply has limits of its
// own, but a server may hold thousands of replies just below them.
package held

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/loopbus/loopbus/schemas"
)

const (
	// limit is the memory of the large replies of a process.
	limit = 128 << 20
	// free is how much each part of a reply holds without being counted: most replies never have more. Thousands of
	// parts may be held at once.
	free = 16 << 10
)

// Replies is the budget of the replies of this process.
var Replies = New(limit, free)

// Budget bounds the bytes of all its shares. When they have more together, one of them ends: that for which the product
// of its bytes and of all those of its vendor is largest. So a server that sends replies as large as it may, or very
// many, does not keep those of others from theirs. A share that ends counts until it is released: those that grow wait
// for that. Its shares may be used concurrently.
type Budget struct {
	limit, free int

	mu       sync.Mutex
	bytes    int             // of all shares that count
	ending   int             // of those that have to end
	large    map[*Share]bool // the others that count
	vendors  map[string]int  // bytes of the others, of vendors that have any
	released chan struct{}   // closed when a share is released, or has to end
}

// New returns a budget of limit bytes, of which a share counts those beyond free.
func New(limit, free int) *Budget {
	return &Budget{limit: limit, free: free, large: map[*Share]bool{}, vendors: map[string]int{},
		released: make(chan struct{})}
}

// Share returns a new share of a vendor's reply, which holds nothing. The budget calls end, from any goroutine, if the
// share has to release its memory; the error has the code overloaded, with which the model call is retried later. The
// share waits for nothing once ctx is done, as it has to be after end.
func (b *Budget) Share(ctx context.Context, vendor string, end func(error)) *Share {
	return &Share{ctx: ctx, budget: b, vendor: vendor, end: end}
}

// A Share is what one part of a reply holds. It is not safe for concurrent use.
type Share struct {
	ctx    context.Context
	budget *Budget
	vendor string
	end    func(error)
	last   int // what counted when Hold was called last: most calls change nothing

	// Guarded by the budget's lock: other shares end this one.
	counted int
	ended   bool
}

// Hold records that the part holds n bytes now. It returns the error with which the share has to end, if it does.
func (s *Share) Hold(n int) error {
	b, counted := s.budget, max(n-s.budget.free, 0)
	if counted == s.last {
		return nil
	}
	s.last = counted
	b.mu.Lock()
	defer b.mu.Unlock()
	before := s.counted
	if !s.ended {
		b.count(s, counted)
	}
	for !s.ended && b.bytes > b.limit {
		if b.bytes-b.ending <= b.limit {
			if !b.wait(s.ctx) {
				break
			}
			continue
		}
		largest := b.largest()
		if largest == s {
			b.count(s, before)
		} else {
			largest.end(b.err())
		}
		b.evict(largest)
	}
	if s.ended || Ended(context.Cause(s.ctx)) {
		return b.err()
	}
	return nil
}

// wait waits until a share is released, or has to end. It returns false if ctx is done. The caller holds the lock.
func (b *Budget) wait(ctx context.Context) bool {
	released := b.released
	b.mu.Unlock()
	defer b.mu.Lock()
	select {
	case <-released:
		return true
	case <-ctx.Done():
		return false
	}
}

// wake wakes the shares that wait. The caller holds the lock.
func (b *Budget) wake() {
	close(b.released)
	b.released = make(chan struct{})
}

// evict records that a share has to end. The caller holds the lock.
func (b *Budget) evict(s *Share) {
	counted := s.counted
	b.count(s, 0) // for its vendor
	s.ended = true
	b.count(s, counted)
	b.wake()
}

// Release releases what the share holds.
func (s *Share) Release() {
	b := s.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	if s.counted > 0 {
		b.count(s, 0)
		b.wake()
	}
	s.last = 0
}

// count changes how many bytes of a share count. The caller holds the lock.
func (b *Budget) count(s *Share, counted int) {
	more := counted - s.counted
	s.counted = counted
	b.bytes += more
	if s.ended {
		b.ending += more
		return
	}
	if b.vendors[s.vendor] += more; b.vendors[s.vendor] == 0 {
		delete(b.vendors, s.vendor)
	}
	if counted > 0 {
		b.large[s] = true
	} else {
		delete(b.large, s)
	}
}

// largest returns the share that has to end next, of those that do not end yet. The caller holds the lock.
func (b *Budget) largest() (largest *Share) {
	most := 0
	for s := range b.large {
		if n := s.counted * b.vendors[s.vendor]; n > most {
			largest, most = s, n
		}
	}
	return largest
}

// errLargest is wrapped by the error of a share that had to end.
var errLargest = errors.New("the large replies that this process receives have too many bytes together")

// Ended returns whether err, such as the cause of a context, is that of a share that had to end.
func Ended(err error) bool { return errors.Is(err, errLargest) }

func (b *Budget) err() error {
	return &schemas.FailureError{Code: schemas.FailureOverloaded, Err: fmt.Errorf("%w: over %d", errLargest, b.limit)}
}
