// Package jsonroom has the room in memory for the JSON that a process makes of large replies and contexts at one time.
package jsonroom

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"sync/atomic"

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
// and as the garbage of all of them. Those that wait are in memory, too.
var Replies = &Room{copies: 6, small: 256 << 10, mostWaiting: 128 << 20, turns: turns.New[bool](room)}

// Copies are the messages of other sessions and other paths that are stored once more, in the same room. How many wait
// is bounded where they are read.
var Copies = &Room{copies: 6, small: 256 << 10, turns: Replies.turns}

// Asked are the replies and the results of tools that services are asked about before they are stored. Services may
// take long.
var Asked = &Room{copies: 3, small: 64 << 10, mostWaiting: 128 << 20, turns: turns.New[bool](room)}

// Requests are those to models, until the model begins to answer: a vendor's SDK has the text of a message, the body,
// and what it sends. Every call of a model makes one, so only those that are small by the thousand do not wait.
var Requests = &Room{copies: 4, small: 64 << 10, turns: turns.New[bool](room)}

// ErrFull is the error of a text for which there is no room to wait.
var ErrFull = errors.New("too many large texts wait for memory")

// A Room is for texts of one kind. It is safe for concurrent use.
type Room struct {
	copies      int // how often the JSON is in memory
	small       int // bytes of JSON that do not wait
	mostWaiting int // bytes of JSON that may wait together, besides the first; 0 is no limit
	waiting     atomic.Int64
	turns       *turns.Turns[bool]
}

// Waits reports whether a text of so many bytes of JSON waits for room.
func (r *Room) Waits(bytes int) bool { return bytes > r.small }

// Wait waits for room for a text of so many bytes of JSON. The caller releases the room once it has no JSON of the text
// any more; to release it again does nothing. The error is ErrFull, or that of ctx.
func (r *Room) Wait(ctx context.Context, bytes int) (release func(), err error) {
	if !r.Waits(bytes) {
		return func() {}, nil
	}
	waiting := r.waiting.Add(int64(bytes))
	defer r.waiting.Add(-int64(bytes))
	if r.mostWaiting > 0 && waiting > int64(max(r.mostWaiting, bytes)) {
		return nil, ErrFull
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
