package worker

import (
	"errors"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/schemas"
)

// updates publishes the partial results of one call, never two within the time between updates. One that comes too
// early waits, and is replaced by the next.
type updates struct {
	*Worker
	req schemas.ToolRequest

	mu      sync.Mutex
	waiting *schemas.ToolResult
	timer   *time.Timer // runs while the next update has to wait
	n       uint64
	stopped bool
	quiet   *time.Timer // until something has been published
}

// startUpdates begins the updates of a call that is being executed. One that puts out nothing for a while has an empty
// one published, so that who watches knows that a worker has it.
func (w *Worker) startUpdates(req schemas.ToolRequest) *updates {
	u := &updates{Worker: w, req: req}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.quiet = time.AfterFunc(w.opts.BegunAfter, u.begun)
	return u
}

// begun publishes that the call has begun, unless that is known.
func (u *updates) begun() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.stopped && u.n == 0 {
		u.waiting = new(schemas.ToolResult)
		u.flush()
	}
}

// set publishes r now or as soon as it may.
func (u *updates) set(r schemas.ToolResult) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.stopped {
		return
	}
	u.waiting = &r
	if u.timer == nil {
		u.flush()
		u.timer = time.AfterFunc(u.opts.UpdateEvery, u.due)
	}
}

// due publishes what waits. If nothing does, the next update need not wait.
func (u *updates) due() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.stopped {
		return
	}
	if u.waiting == nil {
		u.timer = nil
		return
	}
	u.flush()
	u.timer.Reset(u.opts.UpdateEvery)
}

// stop publishes what still waits; later updates are dropped.
func (u *updates) stop() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.stopped = true
	u.quiet.Stop()
	if u.timer != nil {
		u.timer.Stop()
	}
	u.flush()
}

func (u *updates) flush() {
	if u.waiting == nil {
		return
	}
	msg, err := u.message(*u.waiting)
	u.waiting = nil
	if err == nil {
		err = u.opts.NC.PublishMsg(msg)
	}
	if errors.Is(err, nats.ErrMaxPayload) {
		u.oversized.Do(func() {
			u.opts.Logger.Warn("updates larger than the server takes are not sent", "tool", u.req.ToolName,
				"session", u.req.Session, "call", u.req.Call, "bytes", len(msg.Data), "limit", u.opts.NC.MaxPayload())
		})
		return
	}
	if err != nil { // the result will say all there is to say
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
