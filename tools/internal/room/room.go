// Package room gives work that takes much memory its room, so that what the calls of a process do at once stays within
// a bound, whatever they are: all rooms together, 1.3 GiB. Each kind of work has its own, so that slow work of one kind
// does not keep the others waiting. Work that takes little does not ask for room.
package room

import (
	"context"
	"runtime/debug"

	"golang.org/x/sync/semaphore"
)

// MaxPicture is the memory in bytes that a picture may take.
const MaxPicture = 768 << 20

// The rooms of a process, which shares its memory.
var (
	Pictures   = New(MaxPicture)
	Edits      = New(128 << 20)
	LargeEdits = New(320 << 20)
	Lines      = New(128 << 20)
)

// returned is how much memory is returned to the system when work ends. It would otherwise stay until the next
// collection, while the next work takes as much.
const returned = 128 << 20

// A Room is memory that work of a kind shares, first come, first served. Create one with [New].
type Room struct {
	free *semaphore.Weighted
	size int64
}

// New returns a room of a size in bytes, which is free.
func New(size int64) Room { return Room{semaphore.NewWeighted(size), size} }

// Take waits for so many bytes, all of the room if they are more. The caller must not have taken room already, or all
// may wait for each other, and calls leave when it has dropped what it allocated. The error is that of a context that
// ends.
func (r Room) Take(ctx context.Context, bytes int64) (leave func(), err error) {
	n := min(bytes, r.size)
	if err := r.free.Acquire(ctx, n); err != nil {
		return nil, err
	}
	return func() {
		if n >= returned { // takes as long as a collection: little beside such work
			debug.FreeOSMemory()
		}
		r.free.Release(n)
	}, nil
}
