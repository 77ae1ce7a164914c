package host

import (
	"context"

	"github.com/loopbus/loopbus/schemas/turns"
)

const (
	// smallSession is the size of a session that takes no room, in bytes of memory. Most sessions are.
	smallSession = 256 << 10
	// largeSession is the size above which sessions have a room of their own, so that the others do not wait for them.
	largeSession = 4 << 20
	// largeLoad is how much of a log, or of a snapshot, is read before the load waits for its turn, and largeLoads how
	// many of those are read at once. What is read takes several times its size, and the size is known only then.
	largeLoad, largeLoads = 4 << 20, 2
)

// rooms bound the memory of the sessions that are at work: a session keeps its context in memory while its model
// answers, and models are slow. A session that finds no room is not in memory while it waits.
type rooms struct {
	limit int // of each class
	of    *turns.Turns[class]
	loads *turns.Turns[struct{}]
}

func newRooms(limit int) *rooms {
	return &rooms{limit, turns.New[class](limit), turns.New[struct{}](largeLoads)}
}

// class is that of sessions which share a room.
type class int

const (
	small class = iota
	medium
	large
)

func classOf(bytes int) class {
	switch {
	case bytes <= smallSession:
		return small
	case bytes <= largeSession:
		return medium
	}
	return large
}

// room is what a session at work has taken. The zero value is that of a small session.
type room struct {
	class class
	bytes int
	leave []func()
}

// wait waits for room for a session. The error is that of ctx.
func (r *rooms) wait(ctx context.Context, bytes int) (room, error) {
	c := classOf(bytes)
	if c == small {
		return room{}, nil
	}
	leave, err := r.of.Wait(ctx, c, bytes)
	if err != nil {
		return room{}, err
	}
	return room{c, min(bytes, r.limit), []func(){leave}}, nil
}

// try is wait without waiting. It reports whether there is room.
func (r *rooms) try(bytes int) (room, bool) {
	got, err := r.wait(ended, bytes)
	return got, err == nil
}

// ended is a context that has ended: who waits with it does not wait.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// grow takes what the room of a session lacks that has grown, and reports whether there is as much. A session may have
// a quarter more than its room: whoever steers it would else have it given up each time, while others wait.
func (r *rooms) grow(has *room, bytes int) bool {
	c, n := classOf(bytes), min(bytes, r.limit)
	if c < has.class || c == has.class && n <= has.bytes+has.bytes/4 {
		return true
	}
	if c > has.class {
		got, ok := r.try(bytes)
		if ok {
			has.free()
			*has = got
		}
		return ok
	}
	leave, err := r.of.Wait(ended, c, n-has.bytes)
	if err != nil {
		return false
	}
	has.bytes, has.leave = n, append(has.leave, leave)
	return true
}

// free gives the room back. To free it again does nothing.
func (r *room) free() {
	for _, leave := range r.leave {
		leave()
	}
	*r = room{}
}

// load returns a context for reading a log. Once it has read much, a load waits for its turn, and has it until end.
func (r *rooms) load(ctx context.Context) (loading context.Context, end func()) {
	bytes, leave := 0, func() {}
	var gate turns.Gate = func(ctx context.Context, n int) error {
		before := bytes
		bytes += n
		if before > largeLoad || bytes <= largeLoad {
			return nil
		}
		got, err := r.loads.Wait(ctx, struct{}{}, 1)
		if err == nil {
			leave = got
		}
		return err
	}
	return turns.WithGate(ctx, gate), func() { leave() }
}
