package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/loopbus/loopbus/bus/bridge"
	"github.com/loopbus/loopbus/bus/client"
)

const (
	waitDefault = 30 * time.Second // default timeout of agent.wait, as in the protocol
	waitMost    = 10 * time.Minute
	maxRuns     = 256 // runs that a connection remembers
	maxWaits    = 64  // calls of agent.wait of a connection at once
)

var errWaits = fmt.Errorf("the connection has %d calls of agent.wait already", maxWaits)

// runs are the newest runs that a connection has started: a run id alone does not identify the session.
type runs struct {
	mu    sync.Mutex
	byID  map[string]started
	order []string
}

// started is a run that has not ended, as far as the connection knows, or the answer to those who wait for it: a
// client.Run keeps the whole reply.
type started struct {
	run    *client.Run
	answer map[string]any
}

func (r *runs) add(run *client.Run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := run.CommandID()
	if _, known := r.byID[id]; known {
		return
	}
	if r.byID == nil {
		r.byID = map[string]started{}
	}
	if r.order = append(r.order, id); len(r.order) > maxRuns {
		delete(r.byID, r.order[0])
		r.order = r.order[1:]
	}
	r.byID[id] = started{run: run}
}

func (r *runs) get(id string) started {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.byID[id]
}

// ended keeps the answer about a run instead of the run.
func (r *runs) ended(id string, answer map[string]any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.byID[id]; known {
		r.byID[id] = started{answer: answer}
	}
}

// agentWait waits for the end of a run that the connection has started.
func (p *peer) agentWait(ctx context.Context, req *request) (any, error) {
	var params struct {
		RunID     string `json:"runId"`
		TimeoutMs int64  `json:"timeoutMs"`
	}
	if err := req.decode(&params); err != nil {
		return nil, err
	}
	if err := bridge.CheckID("runId", params.RunID); err != nil {
		return nil, err
	}
	req.hold.Release() // nothing large is left
	id := bridge.CommandID(params.RunID)
	run := p.runs.get(id)
	switch {
	case run.answer != nil:
		answer := maps.Clone(run.answer)
		answer["runId"] = params.RunID // a run may have two of them, one made of the other
		return answer, nil
	case run.run == nil:
		return nil, &bridge.RequestError{Reason: "this connection has not begun the run: send it again by chat.send"}
	case params.TimeoutMs < 0:
		return nil, &bridge.RequestError{Reason: "timeoutMs is below 0"}
	}
	limit := waitDefault
	if params.TimeoutMs > 0 {
		limit = min(time.Duration(params.TimeoutMs), waitMost/time.Millisecond) * time.Millisecond
	}
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	res, err := run.run.Wait(bounded)
	answer := map[string]any{"runId": params.RunID, "status": "ok", "stopReason": string(res.Reason)}
	var rejected *client.RejectedError
	var withdrawn *client.WithdrawnError
	switch {
	case errors.As(err, &rejected), errors.As(err, &withdrawn):
		answer["status"], answer["error"] = "error", err.Error()
	case err != nil && bounded.Err() != nil && ctx.Err() == nil:
		return map[string]any{"runId": params.RunID, "status": "timeout"}, nil
	case err != nil:
		return nil, err
	case !res.Reason.Normal() && !res.Handled:
		answer["status"], answer["error"] = "error", res.ErrorMessage
	}
	p.runs.ended(id, answer)
	return answer, nil
}

// modelsList returns the models of the runners' catalogue.
func (p *peer) modelsList(ctx context.Context, _ *request) (any, error) {
	all, err := p.b.c.Models(ctx)
	if err != nil {
		return nil, err
	}
	models := make([]map[string]any, 0, len(all))
	for _, m := range all {
		choice := map[string]any{"id": m.ID, "name": m.Name, "provider": m.Provider, "available": m.Key}
		if m.Name == "" {
			choice["name"] = m.ID
		}
		if m.ContextWindow > 0 {
			choice["contextWindow"] = m.ContextWindow
		}
		models = append(models, choice)
	}
	return map[string]any{"models": models}, nil
}
