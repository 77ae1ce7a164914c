package toolargs

import (
	"context"

	"golang.org/x/sync/semaphore"
)

const (
	// maxValues is how many JSON values arguments may have, also within a text that a rewrite parses.
	maxValues = 1 << 18
	// maxCopies is how many copies of the arguments the unions of a schema may have at once: each union in a union has
	// one of what it checks.
	maxCopies = 8
	// valueBytes is the memory of a value while its arguments are checked: parsed, copied and printed.
	valueBytes = 1 << 10
	// small is the memory up to which a check waits only for other small ones, which take no time.
	small, minRoom = 1 << 20, 64 << 10
	// smallRoom and largeRoom are the memory that all checks of a process may take together. One may take all of it.
	smallRoom, largeRoom = 32 << 20, 128 << 20
)

// The rooms are what the checks of a process share: models and clients send arguments to many tools at once.
var smallOnes, largeOnes = semaphore.NewWeighted(smallRoom), semaphore.NewWeighted(largeRoom)

// enter waits until there is room to check the arguments.
func enter(ctx context.Context, args []byte) (leave func(), err error) {
	n, room := roomOf(args), largeOnes
	if n <= small {
		room = smallOnes
	}
	if !room.TryAcquire(n) { // which a context that has ended does not keep from it
		if err := room.Acquire(ctx, n); err != nil {
			return nil, context.Cause(ctx)
		}
	}
	return func() { room.Release(n) }, nil
}

// roomOf estimates the memory that the check takes, from above: each value but one stands behind one of these
// characters, also in a text.
func roomOf(args []byte) int64 {
	values := 1
	for _, c := range args {
		switch c {
		case ',', ':', '[', '{':
			values++
		}
	}
	return int64(min(max(min(values, maxValues)*valueBytes+4*len(args), minRoom), largeRoom))
}
