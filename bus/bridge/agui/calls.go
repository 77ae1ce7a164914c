package agui

import (
	"context"
	"time"

	"github.com/loopbus/loopbus/bus/bridge"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
)

// answerKept is how long an answer waits for its call, whose worker may have to be started first.
const answerKept = time.Minute

// waiting is a call, or an answer that arrived before its call.
type waiting struct {
	waits  bool // the call has arrived
	answer inputMessage
	hold   *bridge.Hold // of the answer
	expiry *time.Timer  // forgets the answer
	ready  chan struct{}
}

// wait executes a call: it waits for the client's answer.
func (f *frontends) wait(ctx context.Context, call tools.Call) (schemas.ToolResult, error) {
	w := f.call(call.Session, call.Key, 1)
	defer f.over(call.Session, call.Key)
	select {
	case <-w.ready:
	case <-ctx.Done():
		return schemas.ToolResult{}, tools.Failure("the client that has this tool has not answered")
	}
	if w.answer.Error != "" {
		return schemas.ToolResult{}, tools.Failure(w.answer.Error)
	}
	c, err := w.answer.contents()
	if err != nil {
		return schemas.ToolResult{}, tools.Failure(err.Error())
	}
	return schemas.ToolResult{Content: c}, nil
}

func callName(session string, key schemas.CallKey) string { return session + "/" + string(key) }

// call returns a call by name, creating it if the call or its answer is the first to arrive.
func (f *frontends) call(session string, key schemas.CallKey, waits int) *waiting {
	f.mu.Lock()
	defer f.mu.Unlock()
	if one := f.all[session]; one != nil {
		one.calls += waits
		one.used = time.Now()
	}
	w := f.calls[callName(session, key)]
	if w == nil {
		w = &waiting{ready: make(chan struct{})}
		f.calls[callName(session, key)] = w
	}
	w.waits = w.waits || waits > 0
	return w
}

func (f *frontends) over(session string, key schemas.CallKey) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if one := f.all[session]; one != nil {
		one.calls--
	}
	f.drop(callName(session, key))
}

// drop removes a call with its answer. The caller holds the lock.
func (f *frontends) drop(name string) {
	if w := f.calls[name]; w != nil && w.hold != nil {
		w.expiry.Stop() // it refers to the answer
		w.hold.Release()
	}
	delete(f.calls, name)
}

// answer passes a client's results to their calls. The first result of a call counts, and takes its part of the hold of
// the request.
func (f *frontends) answer(session string, results map[schemas.CallKey]inputMessage, hold *bridge.Hold) {
	for key, m := range results {
		w := f.call(session, key, 0)
		f.mu.Lock()
		select {
		case <-w.ready:
		default:
			w.answer, w.hold = m, hold.Part(len(m.ID)+len(m.ToolCallID)+len(m.Content)+len(m.Error))
			close(w.ready)
			w.expiry = time.AfterFunc(answerKept, func() { f.forget(session, key, w) })
		}
		f.mu.Unlock()
	}
}

// forget removes an answer whose call has not arrived: it was over already. Another call may get its key, in a session
// that is deleted and started again.
func (f *frontends) forget(session string, key schemas.CallKey, w *waiting) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if name := callName(session, key); f.calls[name] == w && !w.waits {
		f.drop(name)
	}
}
