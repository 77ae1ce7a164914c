package host

import (
	"sync"
	"time"
)

// leastGrace is the time that cancelled tools get to stop while other sessions wait for the room to be aborted in: as
// long as one that works takes.
const leastGrace = 100 * time.Millisecond

// A crowd is those who wait for a room for aborts. Sessions in it wait for their cancelled tools, each for as long as
// nobody else waits: many of them would otherwise keep the aborts of others from beginning.
type crowd struct {
	mu      sync.Mutex
	waiting int
	next    int
	hurry   map[int]func() // to be called once when somebody waits
}

// wait adds somebody who waits, until leave is called.
func (c *crowd) wait() (leave func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting++
	for _, f := range c.hurry {
		f()
	}
	clear(c.hurry)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.waiting--
	}
}

// onWait calls f once somebody waits, unless forget is called before. f must not block.
func (c *crowd) onWait(f func()) (forget func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting > 0 {
		f()
		return func() {}
	}
	if c.hurry == nil {
		c.hurry = map[int]func(){}
	}
	n := c.next
	c.next++
	c.hurry[n] = f
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.hurry, n)
	}
}

// hurry ends the grace of an entry that is in a room for aborts once others wait for that.
func (h *Host) hurry(e *entry, end func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rooms.hurry(&e.room, func() { h.o.Clock.AfterFunc(leastGrace, end) })
}

func (r *rooms) hurry(has *room, f func()) {
	if has.class.aborts() {
		has.leave = append(has.leave, r.crowds[has.class].onWait(f))
	}
}
