package gateway

import (
	"encoding/json"
	"strings"
	"sync"

	"github.com/loopbus/loopbus/bus/bridge"
)

// queues run functions: those of one queue one after another, in the order in which they were added.
type queues struct {
	mu      sync.Mutex
	waiting map[string][]func() // by the name of the queue; an entry for each one at work
}

// add adds f to a queue. If the queue is not at work, it starts in a goroutine of parts.
func (q *queues) add(parts *sync.WaitGroup, name string, f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if waiting, busy := q.waiting[name]; busy {
		q.waiting[name] = append(waiting, f)
		return
	}
	if q.waiting == nil {
		q.waiting = map[string][]func(){}
	}
	q.waiting[name] = nil
	parts.Go(func() {
		for ; f != nil; f = q.next(name) {
			f()
		}
	})
}

// next removes the function that comes next from a queue. It returns nil if there is none, which ends the queue.
func (q *queues) next(name string) func() {
	q.mu.Lock()
	defer q.mu.Unlock()
	waiting := q.waiting[name]
	if len(waiting) == 0 {
		delete(q.waiting, name)
		return nil
	}
	f := waiting[0]
	waiting[0] = nil // it may hold a large frame
	q.waiting[name] = waiting[1:]
	return f
}

// queueOf returns the queue of a request that has to keep its place among the requests of the connection: that of its
// session, or "" for the list of sessions. Any other request only reads or waits, and keeps no place.
func queueOf(req *request) (name string, ordered bool) {
	var params struct{ SessionKey, Key, ID string }
	_ = json.Unmarshal(req.Params, &params) // the method refuses params that are wrong
	switch req.Method {
	case "chat.send", "chat.abort":
		return bridge.SessionID(params.SessionKey), true
	case "sessions.messages.subscribe", "sessions.messages.unsubscribe":
		return bridge.SessionID(params.Key), true
	case "exec.approval.resolve":
		session, _, _ := strings.Cut(params.ID, "/")
		return session, true
	case "sessions.subscribe", "sessions.unsubscribe":
		return "", true
	}
	return "", false
}
