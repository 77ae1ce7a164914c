package host

import (
	"context"

	"github.com/loopbus/loopbus/schemas/priority"
	"github.com/loopbus/loopbus/schemas/turns"
)

const (
	// smallSession is the size of a session that takes no room, in bytes of memory. More than a thousand may be at work.
	smallSession = 64 << 10
	// moderateSession, mediumSession and largeSession are the sizes up to which sessions share a room. The others do not
	// wait for them.
	moderateSession, mediumSession, largeSession = 256 << 10, 1 << 20, 4 << 20
)

// rooms bound the memory of the sessions that are at work: a session keeps its context in memory while its model
// answers, and models are slow. A session that finds no room is not in memory while it waits.
type rooms struct {
	of     map[class]*turns.Turns[struct{}]
	limit  map[class]int
	crowds map[class]*crowd // of the rooms for aborts
}

// newRooms shares a number of bytes out.
func newRooms(bytes int) *rooms {
	r := &rooms{map[class]*turns.Turns[struct{}]{}, map[class]int{
		urgent: bytes / 8, urgentHuge: bytes / 8,
		moderate: bytes / 2, medium: bytes / 4, large: bytes / 4, huge: bytes / 2,
	}, map[class]*crowd{urgent: {}, urgentHuge: {}}}
	for c, limit := range r.limit {
		r.of[c] = turns.New[struct{}](limit)
	}
	return r
}

// class is that of sessions which share a room.
type class int

const (
	small      class = iota
	urgent           // a session that is to be aborted: no model is called meanwhile
	urgentHuge       // a huge one: each may wait for its tools until their grace has passed
	moderate
	medium
	large
	huge
)

func (c class) aborts() bool { return c == urgent || c == urgentHuge }

// toAbort returns the class of a session that is to be aborted, and is not small.
func toAbort(bytes int) class {
	if bytes > largeSession {
		return urgentHuge
	}
	return urgent
}

func classOf(bytes int) class {
	switch {
	case bytes <= smallSession:
		return small
	case bytes <= moderateSession:
		return moderate
	case bytes <= mediumSession:
		return medium
	case bytes <= largeSession:
		return large
	}
	return huge
}

// room is what a session at work has taken. The zero value is that of a small session.
type room struct {
	class class
	bytes int
	leave []func()
}

// wait waits for room for a session. The error is that of ctx.
func (r *rooms) wait(ctx context.Context, bytes int) (room, error) {
	return r.waitIn(ctx, classOf(bytes), bytes)
}

func (r *rooms) waitIn(ctx context.Context, c class, bytes int) (room, error) {
	if c == small {
		return room{}, nil
	}
	leave, err := r.of[c].Wait(ctx, struct{}{}, bytes)
	if err != nil {
		return room{}, err
	}
	return room{c, min(bytes, r.limit[c]), []func(){leave}}, nil
}

// try is wait without waiting. It reports whether there is room.
func (r *rooms) try(bytes int) (room, bool) { return r.tryIn(classOf(bytes), bytes) }

func (r *rooms) tryIn(c class, bytes int) (room, bool) {
	got, err := r.waitIn(ended, c, bytes)
	return got, err == nil
}

// ended is a context that has ended: who waits with it does not wait.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// waitOr is wait until the session is to be aborted, or an abort waits behind this delivery. It then waits in the room
// for that.
func (r *rooms) waitOr(ctx context.Context, bytes int, abort <-chan struct{}) (room, error) {
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		select {
		case <-abort:
			stop()
		case <-priority.Raised(ctx):
			stop()
		case <-waiting.Done():
		}
	}()
	got, err := r.wait(waiting, bytes)
	if err == nil || ctx.Err() != nil {
		return got, err
	}
	c := toAbort(bytes)
	if got, ok := r.tryIn(c, bytes); ok {
		return got, nil
	}
	defer r.crowds[c].wait()()
	return r.waitIn(ctx, c, bytes)
}

// grow takes what the room of a session lacks that has grown, and reports whether there is as much. A session may have
// a quarter more than its room: whoever steers it would else have it given up each time, while others wait. What more
// it needs in its room it gets before those who wait, as it keeps what it has until then. One that is to be aborted
// stays in the room for that, unless it leaves that to go on.
func (r *rooms) grow(has *room, bytes int, goesOn bool) bool {
	c := classOf(bytes)
	if has.class.aborts() && !goesOn {
		c = max(has.class, toAbort(bytes))
	}
	n := min(bytes, r.limit[c])
	if c < has.class && !has.class.aborts() || c == has.class && n <= has.bytes+has.bytes/4 {
		return true
	}
	if c != has.class {
		got, ok := r.tryIn(c, bytes)
		if ok {
			has.free()
			*has = got
		}
		return ok
	}
	leave, ok := r.of[c].Take(struct{}{}, n-has.bytes)
	if ok {
		has.bytes, has.leave = n, append(has.leave, leave)
	}
	return ok
}

// free gives the room back. To free it again does nothing.
func (r *room) free() {
	for _, leave := range r.leave {
		leave()
	}
	*r = room{}
}

// needs are the bytes for which sessions were given up, so that each waits for as much before it is loaded again: what
// services have answered is in no state. A session whose need is forgotten is loaded and given up once more.
type needs map[string]int

const maxNeeds = 1024

func (n needs) put(session string, bytes int) {
	if len(n) >= maxNeeds {
		clear(n)
	}
	n[session] = bytes
}

// take returns what a session needs, and forgets it.
func (n needs) take(session string) (bytes int) {
	bytes = n[session]
	delete(n, session)
	return bytes
}
