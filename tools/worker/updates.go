package worker

import (
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/schemas"
)

// updates publishes the partial results of one call, at most one per UpdateEvery. An update that is set earlier waits;
// the next one replaces it.
type updates struct {
	*Worker
	req schemas.ToolRequest

	mu      sync.Mutex
	pending *schemas.ToolResult // the next update, nil if there is none
	timer   *time.Timer         // runs while the next update has to wait; nil if it need not
	n       uint64              // number of the last update
	stopped bool
	begun   *time.Timer // calls reportBegun
}

// startUpdates returns the updates of a call that is about to be executed. If the call has published no update after
// BegunAfter, an empty one is published, so that clients that watch the session know that a worker executes the call.
func (w *Worker) startUpdates(req schemas.ToolRequest) *updates {
	u := &updates{Worker: w, req: req}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.begun = time.AfterFunc(w.opts.BegunAfter, u.reportBegun)
	return u
}

// reportBegun publishes an empty update, unless the call has published one before.
func (u *updates) reportBegun() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.stopped && u.n == 0 {
		u.pending = new(schemas.ToolResult)
		u.flush()
	}
}

// set publishes r now, or when UpdateEvery has passed since the last update.
func (u *updates) set(r schemas.ToolResult) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.stopped {
		return
	}
	u.pending = &r
	if u.timer == nil {
		u.flush()
		u.timer = time.AfterFunc(u.opts.UpdateEvery, u.publishPending)
	}
}

// publishPending publishes the pending update. Without one it stops the timer: the next update need not wait.
func (u *updates) publishPending() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.stopped {
		return
	}
	if u.pending == nil {
		u.timer = nil
		return
	}
	u.flush()
	u.timer.Reset(u.opts.UpdateEvery)
}

// stop publishes the pending update. Later updates are dropped.
func (u *updates) stop() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stopped = true
	u.begun.Stop()
	if u.timer != nil {
		u.timer.Stop()
	}
	u.flush()
}

// flush publishes the pending update, if there is one. mu is held.
func (u *updates) flush() {
	if u.pending == nil {
		return
	}
	msg, err := u.message(*u.pending)
	u.pending = nil
	if err == nil {
		err = u.opts.NC.PublishMsg(msg)
	}
	if errors.Is(err, nats.ErrMaxPayload) {
		u.oversized.Do(func() {
			u.opts.Logger.Warn("update dropped: it is larger than the maximum payload of the server",
				"tool", u.req.ToolName, "session", u.req.Session, "call", u.req.Call, "bytes", len(msg.Data),
				"limit", u.opts.NC.MaxPayload())
		})
		return
	}
	if err != nil { // updates need no retry: the result of the call has everything
		u.opts.Logger.Debug("update dropped", "session", u.req.Session, "call", u.req.Call, "err", err)
	}
}

func (u *updates) message(r schemas.ToolResult) (*nats.Msg, error) {
	u.n++
	update := schemas.Update{
		Session: u.req.Session, Event: u.req.StartSeq, N: u.n, Time: time.Now(), Source: "/loopbus/toolworker/" + u.opts.ID,
		RunID: u.req.RunID, TurnID: u.req.TurnID,
		Data: &schemas.ToolExecutionUpdate{ToolCallID: u.req.ToolCallID, ToolName: u.req.ToolName, Call: u.req.Call,
			PartialResult: r},
	}
	header, payload, err := schemas.EncodeUpdate(update)
	return &nats.Msg{Subject: u.opts.Subjects.LiveUpdate(u.req.Session), Header: header, Data: payload}, err
}
