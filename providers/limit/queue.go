package limit

import "slices"

// waiter is a waiting request. ready is closed when it gets a slot.
type waiter struct {
	session string
	ready   chan struct{}
}

// queue serves sessions round-robin, and the requests of one session in their order.
type queue struct {
	waiting  int
	turns    []string // sessions with waiting requests, the next one first
	sessions map[string][]*waiter
}

func (q *queue) push(w *waiter) {
	if q.sessions == nil {
		q.sessions = map[string][]*waiter{}
	}
	if len(q.sessions[w.session]) == 0 {
		q.turns = append(q.turns, w.session)
	}
	q.sessions[w.session] = append(q.sessions[w.session], w)
	q.waiting++
}

// pop removes and returns the next waiter. The queue must not be empty.
func (q *queue) pop() *waiter {
	session := q.turns[0]
	w := q.sessions[session][0]
	q.turns = q.turns[1:]
	q.drop(session, 0)
	if len(q.sessions[session]) > 0 {
		q.turns = append(q.turns, session)
	}
	return w
}

// remove removes a waiter and reports whether it was in the queue.
func (q *queue) remove(w *waiter) bool {
	i := slices.Index(q.sessions[w.session], w)
	if i < 0 {
		return false
	}
	q.drop(w.session, i)
	if len(q.sessions[w.session]) == 0 {
		q.turns = slices.DeleteFunc(q.turns, func(s string) bool { return s == w.session })
	}
	return true
}

// drop removes the session's waiter at index i, but does not change turns.
func (q *queue) drop(session string, i int) {
	q.waiting--
	rest := slices.Delete(q.sessions[session], i, i+1)
	if q.sessions[session] = rest; len(rest) == 0 {
		delete(q.sessions, session)
	}
}
