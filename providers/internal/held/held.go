// Package held bounds the memory that all unfinished replies of the process hold together. Each reply has limits of its
// own, but a server may hold thousands of replies just below them.
package held

import (
	"fmt"
	"sync/atomic"

	"github.com/loopbus/loopbus/schemas"
)

const (
	// limit is the memory of the large replies of a process.
	limit = 512 << 20
	// free is how much each part of a reply holds without being counted: most replies never have more.
	free = 256 << 10
)

// Replies is the budget of the replies of this process.
var Replies = New(limit, free)

// Budget bounds the bytes of all its shares. Its shares may be used concurrently.
type Budget struct {
	limit, free int64
	used        atomic.Int64
}

// New returns a budget of limit bytes, of which a share counts those beyond free.
func New(limit, free int64) *Budget { return &Budget{limit: limit, free: free} }

// Share returns a new share, which holds nothing.
func (b *Budget) Share() *Share { return &Share{budget: b} }

// A Share is what one part of a reply holds. It is not safe for concurrent use.
type Share struct {
	budget *Budget
	used   int64
}

// Hold records that the part holds n bytes now. If the budget does not allow as much, the error has the code
// overloaded, with which the model call is retried later.
func (s *Share) Hold(n int) error {
	more := max(int64(n)-s.budget.free, 0) - s.used
	if more == 0 {
		return nil
	}
	if used := s.budget.used.Add(more); more > 0 && used > s.budget.limit {
		s.budget.used.Add(-more)
		return schemas.NewFailure(schemas.FailureOverloaded, fmt.Sprintf(
			"the large replies that this process receives have more than %d bytes together", s.budget.limit))
	}
	s.used += more
	return nil
}

// Release returns what the share holds to the budget.
func (s *Share) Release() {
	s.budget.used.Add(-s.used)
	s.used = 0
}
