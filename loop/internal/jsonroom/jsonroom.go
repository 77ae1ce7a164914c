// Package jsonroom has the room in memory for the JSON that a process makes of large replies and contexts at one time.
package jsonroom

import (
	"context"
	"runtime/debug"
	"sync"

	"github.com/loopbus/loopbus/schemas/turns"
)

const (
	// room is the memory for the texts of each class together.
	room = 128 << 20
	// large texts have a room of their own, so that those below do not wait behind them.
	large = 1 << 20
	// collected is the room whose garbage is collected before the next text gets it.
	collected = room / 4
)

// Replies are those that are stored: each is in memory as its event, as what encoded that, as the payload that is sent,
// and as the garbage of all of them.
var Replies = newRoom(6, 256<<10)

// Requests are those to models, until the model begins to answer: a vendor's SDK has the text of a message, the body,
// and what it sends. Every call of a model makes one, so only those that are small by the thousand do not wait.
var Requests = newRoom(4, 64<<10)

// A Room is for texts of one kind. It is safe for concurrent use.
type Room struct {
	copies int // how often the JSON is in memory
	small  int // bytes of JSON that do not wait
	turns  *turns.Turns[bool]
}

func newRoom(copies, small int) *Room { return &Room{copies, small, turns.New[bool](room)} }

// Waits reports whether a text of so many bytes of JSON waits for room.
func (r *Room) Waits(bytes int) bool { return bytes > r.small }

// Wait waits for room for a text of so many bytes of JSON. The caller releases the room once it has no JSON of the text
// any more; to release it again does nothing. The error is that of ctx.
func (r *Room) Wait(ctx context.Context, bytes int) (release func(), err error) {
	if !r.Waits(bytes) {
		return func() {}, nil
	}
	needs := r.copies * bytes
	leave, err := r.turns.Wait(ctx, bytes > large, needs)
	if err != nil || needs < collected {
		return leave, err
	}
	return sync.OnceFunc(func() {
		defer leave()
		debug.FreeOSMemory()
	}), nil
}
