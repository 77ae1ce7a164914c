// Package admission bounds how many sessions a runner works on at once, and chooses which of the waiting messages start
// next (admission control). It has no clock, goroutine or lock of its own.
//
// A message of a session that is at work never waits. The others wait in two queues: urgent messages, which continue
// something (tool results, approvals and aborts), and the rest. Each queue is served from both ends in turn
// (adaptive LIFO): a burst does not delay a later message for long, and no message waits for ever. If none of a queue
// has started for [Patience], its newest starts beyond the bound, within the room that is reserved for that.
package admission

import (
	"container/list"
	"time"
)

const (
	// MaxStarting is how many sessions of a queue start at once, that is, are loaded from their logs until their
	// message is stored. More of them would only share the processors, and keep sessions at work from theirs.
	MaxStarting = 64
	// Patience is how long the messages of a queue wait before the newest starts although there is no room.
	Patience = 100 * time.Millisecond
)

// Gate admits messages. Use [New] to create one. Its methods are not safe for concurrent use: the caller's lock guards
// them, and start functions are called with it held.
type Gate struct {
	arm     func(d time.Duration)
	armed   bool
	working map[string]int // admitted messages that are not paused, by session
	queues  [2]*queue      // of urgent messages, and of the rest
}

// queue is messages that wait, oldest first.
type queue struct {
	waiting list.List
	// How many sessions may be at work for a message to start, and for one to start after Patience.
	room, reserve int
	starting      int
	newest        bool      // the newest message is next
	last          time.Time // when a message started
}

// Request is a message at the gate.
type Request struct {
	session  string
	start    func()
	queue    *queue
	place    *list.Element // nil unless it waits
	starting bool
	working  bool
}

// New returns a gate for maxSessions at once, at least 1. Half as many again may start after [Patience]. While urgent
// messages wait there is room for twice as many, and after [Patience] for three times: what continues a run may keep
// its place for the model call that follows. arm has to call [Gate.Tick] once after d.
func New(maxSessions int, arm func(d time.Duration)) *Gate {
	return &Gate{arm: arm, working: map[string]int{}, queues: [2]*queue{
		{room: 2 * maxSessions, reserve: 3 * maxSessions}, {room: maxSessions, reserve: maxSessions + (maxSessions+1)/2},
	}}
}

// Request calls start once the message may start, now or in a later call of a method. The caller has to call
// [Gate.Done] at the end.
func (g *Gate) Request(session string, urgent bool, now time.Time, start func()) *Request {
	r := &Request{session: session, start: start, queue: g.queues[1]}
	if urgent {
		r.queue = g.queues[0]
	}
	if g.working[session] > 0 {
		g.start(r)
		return r
	}
	if r.queue.waiting.Len() == 0 {
		r.queue.last = now // nothing has waited until now
	}
	r.place = r.queue.waiting.PushBack(r)
	g.next(now)
	return r
}

// Entered records that a message is stored in its session's log, or waits for something else before that, so that
// another session may start.
func (g *Gate) Entered(r *Request, now time.Time) {
	r.started()
	g.next(now)
}

// Pause gives the place of an admitted message to others until Resume.
func (g *Gate) Pause(r *Request, now time.Time) {
	r.started()
	if r.working {
		r.working = false
		if g.working[r.session]--; g.working[r.session] == 0 {
			delete(g.working, r.session)
		}
	}
	g.next(now)
}

// Resume ends a pause. The message does not wait for room, because few messages are retried.
func (g *Gate) Resume(r *Request) {
	if !r.working {
		r.working = true
		g.working[r.session]++
	}
}

// Done ends a request, whether it waits or was admitted. It may be called more than once.
func (g *Gate) Done(r *Request, now time.Time) {
	if r.place != nil {
		r.queue.waiting.Remove(r.place)
		r.place = nil
	}
	g.Pause(r, now)
}

// Waiting returns how many messages wait.
func (g *Gate) Waiting() int { return g.queues[0].waiting.Len() + g.queues[1].waiting.Len() }

// Working returns how many sessions are at work.
func (g *Gate) Working() int { return len(g.working) }

// Tick has to be called when the time has passed for which arm was called.
func (g *Gate) Tick(now time.Time) {
	g.armed = false
	for _, q := range g.queues {
		if q.waiting.Len() > 0 && now.Sub(q.last) >= Patience && len(g.working) < q.reserve {
			g.admit(q, true, now)
		}
	}
	g.rearm()
}

// next admits as many messages as there is room for.
func (g *Gate) next(now time.Time) {
	for _, q := range g.queues {
		for q.waiting.Len() > 0 && q.starting < MaxStarting && len(g.working) < q.room {
			g.admit(q, q.newest, now)
			q.newest = !q.newest
		}
	}
	g.rearm()
}

func (g *Gate) rearm() {
	if !g.armed && g.Waiting() > 0 {
		g.armed = true
		g.arm(Patience)
	}
}

// admit starts the newest or the oldest message of a queue.
func (g *Gate) admit(q *queue, newest bool, now time.Time) {
	at := q.waiting.Front()
	if newest {
		at = q.waiting.Back()
	}
	r := q.waiting.Remove(at).(*Request)
	r.place, q.last = nil, now
	r.starting = true
	q.starting++
	g.start(r)
}

func (g *Gate) start(r *Request) {
	g.Resume(r)
	r.start()
}

// started ends the time in which a message counts as starting.
func (r *Request) started() {
	if r.starting {
		r.starting = false
		r.queue.starting--
	}
}
