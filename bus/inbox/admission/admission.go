// Package admission bounds how many sessions a runner works on at once, and says which of those that wait begin next
// (admission control). It has no clock, goroutine or lock of its own.
//
// A session that is at work already is never kept waiting. What waits is in two lines: messages that continue
// something, such as tool results, approvals, aborts and steering, and all others. Each line is served from both ends
// in turn, so that a burst does not keep whoever comes after it waiting, and nobody waits for ever (adaptive LIFO).
// Beyond the bound the newest of a line begins all the same after [Patience] without a beginning, within the room that
// is kept for that.
package admission

import (
	"container/list"
	"time"
)

const (
	// MostBeginning is how many sessions of a line are brought in at once: read from their logs, with the message stored.
	// More would only share the processors, and keep the sessions at work from theirs.
	MostBeginning = 64
	// Patience is how long a line stands before its newest begins although there is no place.
	Patience = 100 * time.Millisecond
)

// Gate admits messages to their sessions. A nil pointer is not ready; use [New]. Methods are not safe for concurrent
// use: the caller's lock guards them, and start is called with it held.
type Gate struct {
	arm     func(d time.Duration)
	armed   bool
	working map[string]int // messages under way, by session
	lines   [2]*line       // of those that press, and of all others
}

// line is messages that wait, oldest first.
type line struct {
	waiting       list.List
	room, hurried int // how many sessions may be at work for one to begin, and for one that has waited for long
	beginning     int
	newest        bool      // whose turn it is
	last          time.Time // one began
}

// Request is one message at the gate.
type Request struct {
	session   string
	start     func()
	line      *line
	place     *list.Element // nil unless it waits
	beginning bool
	working   bool
}

// New returns a gate for most sessions at once, which has to be at least 1. Half as many again may begin out of
// impatience, and messages that press may have twice as many. arm has [Gate.Hurry] called once after d.
func New(most int, arm func(d time.Duration)) *Gate {
	return &Gate{arm: arm, working: map[string]int{},
		lines: [2]*line{{room: 2 * most, hurried: 2 * most}, {room: most, hurried: most + (most+1)/2}}}
}

// Ask has start called once the message may begin, now or in a later call of a method. The caller says what becomes of
// it by the other methods, and by [Gate.Done] at the end.
func (g *Gate) Ask(session string, pressing bool, now time.Time, start func()) *Request {
	t := &Request{session: session, start: start, line: g.lines[1]}
	if pressing {
		t.line = g.lines[0]
	}
	if g.working[session] > 0 {
		g.begin(t)
		return t
	}
	if t.line.waiting.Len() == 0 {
		t.line.last = now // it has not stood till now
	}
	t.place = t.line.waiting.PushBack(t)
	g.next(now)
	return t
}

// Entered says that a message is stored in its session, or will not be for a while.
func (g *Gate) Entered(t *Request, now time.Time) {
	if t.beginning {
		t.beginning = false
		t.line.beginning--
		g.next(now)
	}
}

// Pause says that a message is not worked on for a while, so that others may have its place.
func (g *Gate) Pause(t *Request, now time.Time) {
	g.leave(t)
	g.next(now)
}

// Resume ends a pause. It waits for no place: what is tried again is little.
func (g *Gate) Resume(t *Request) {
	if !t.working {
		t.working = true
		g.working[t.session]++
	}
}

// Done says that a message has been dealt with, or takes it out of the line. It may be called twice.
func (g *Gate) Done(t *Request, now time.Time) {
	if t.place != nil {
		t.line.waiting.Remove(t.place)
		t.place = nil
	}
	g.leave(t)
	g.next(now)
}

// Waits reports whether a message has not begun.
func (t *Request) Waits() bool { return t.place != nil }

// Waiting is how many messages wait.
func (g *Gate) Waiting() int { return g.lines[0].waiting.Len() + g.lines[1].waiting.Len() }

// Working is how many sessions are at work.
func (g *Gate) Working() int { return len(g.working) }

func (g *Gate) leave(t *Request) {
	if t.beginning {
		t.beginning = false
		t.line.beginning--
	}
	if !t.working {
		return
	}
	t.working = false
	if g.working[t.session]--; g.working[t.session] == 0 {
		delete(g.working, t.session)
	}
}

// next begins what there is room for.
func (g *Gate) next(now time.Time) {
	for _, l := range g.lines {
		for l.waiting.Len() > 0 && l.beginning < MostBeginning && len(g.working) < l.room {
			g.admit(l, l.newest, now)
			l.newest = !l.newest
		}
	}
	g.rearm()
}

// Hurry is called after the time that the gate has asked for.
func (g *Gate) Hurry(now time.Time) {
	g.armed = false
	for _, l := range g.lines {
		if l.waiting.Len() > 0 && now.Sub(l.last) >= Patience && len(g.working) < l.hurried {
			g.admit(l, true, now)
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

// admit begins the newest or the oldest of a line.
func (g *Gate) admit(l *line, newest bool, now time.Time) {
	at := l.waiting.Front()
	if newest {
		at = l.waiting.Back()
	}
	t := l.waiting.Remove(at).(*Request)
	t.place, l.last = nil, now
	t.beginning = true
	l.beginning++
	g.begin(t)
}

func (g *Gate) begin(t *Request) {
	g.Resume(t)
	t.start()
}
