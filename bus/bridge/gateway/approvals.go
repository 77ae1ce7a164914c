package gateway

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/loopbus/loopbus/bus/bridge"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/schemas"
)

// pendingDays is how long an approval that has no end is said to last: the protocol wants one.
const pendingDays = 365

// approvals are those that wait, of all sessions, once a connection has asked for them.
type approvals struct {
	mu      sync.Mutex
	begun   bool
	waiting map[string]map[string]any // by id
}

// approvalID is the session and the call.
func approvalID(session string, call schemas.CallKey) string { return session + "/" + string(call) }

// approvalList is what waits. From the first time on the connection gets every change.
func (p *peer) approvalList(ctx context.Context, _ json.RawMessage) (any, error) {
	p.asks.mu.Lock()
	if p.asks.begun {
		defer p.asks.mu.Unlock()
		all := []map[string]any{}
		for _, id := range slices.Sorted(maps.Keys(p.asks.waiting)) {
			all = append(all, p.asks.waiting[id])
		}
		return all, nil
	}
	p.asks.mu.Unlock()
	page, err := p.pending(ctx)
	if err != nil {
		return nil, err
	}
	p.asks.mu.Lock()
	defer p.asks.mu.Unlock()
	if !p.asks.begun {
		p.asks.begun, p.asks.waiting = true, map[string]map[string]any{}
		for _, a := range page {
			p.asks.waiting[a["id"].(string)] = a
		}
		p.parts.Go(func() { p.followApprovals(ctx) })
	}
	return page, nil
}

// pending asks for what waits at this moment.
func (p *peer) pending(ctx context.Context) ([]map[string]any, error) {
	all := []map[string]any{}
	q := schemas.SessionsQuery{Status: []schemas.SessionStatus{schemas.SessionWaitingForApproval},
		Limit: schemas.MaxQueryLimit}
	page, err := p.b.c.Sessions(ctx, q)
	if err != nil {
		return nil, err
	}
	for _, s := range page.Sessions {
		waiting, err := p.waiting(ctx, s.Session)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			// One session's data, which go ahead of its log where it is deleted, are not everybody's business. What can be
			// read after all comes as a change: those begin with all that waits.
			p.b.o.Logger.Warn("the approvals of a session cannot be read", "session", s.Session, "err", err)
		default:
			all = append(all, waiting...)
		}
	}
	return all, nil
}

// waiting is what waits of a session.
func (p *peer) waiting(ctx context.Context, session string) (all []map[string]any, err error) {
	f, err := p.open(ctx, p.b.c.Session(session))
	if err != nil {
		return nil, err
	}
	for _, c := range bridge.Waiting(&f.State) {
		asked, err := f.Asked(ctx, c.Key)
		if err != nil {
			return nil, err
		}
		all = append(all, approval(client.Approval{Session: session, Time: c.Approval.RequestedAt, Request: *asked}))
	}
	return all, nil
}

func approval(a client.Approval) map[string]any {
	expires := a.Time.Add(time.Duration(a.Request.TimeoutMs) * time.Millisecond)
	if a.Request.TimeoutMs == 0 {
		expires = a.Time.AddDate(0, 0, pendingDays)
	}
	return map[string]any{"id": approvalID(a.Session, a.Request.Call), "createdAtMs": a.Time.UnixMilli(),
		"expiresAtMs": expires.UnixMilli(), "request": map[string]any{"sessionKey": a.Session,
			"command": a.Request.ToolName + " " + string(a.Request.Args), "toolName": a.Request.ToolName,
			"args": a.Request.Args, "reason": a.Request.Reason, "allowedDecisions": []string{"allow-once", "deny"}}}
}

// followApprovals tells the connection what changes.
func (p *peer) followApprovals(ctx context.Context) {
	for a, err := range p.b.c.Approvals(ctx) {
		if err != nil {
			if ctx.Err() == nil {
				p.cancel(err) // a list that does not change would be taken for one that has not
			}
			return
		}
		if p.approvalChanged(a) != nil {
			return
		}
	}
}

func (p *peer) approvalChanged(a client.Approval) error {
	id := approvalID(a.Session, a.Request.Call)
	p.asks.mu.Lock()
	known := p.asks.waiting[id] != nil
	if a.Waiting {
		p.asks.waiting[id] = approval(a)
	} else {
		delete(p.asks.waiting, id)
	}
	p.asks.mu.Unlock()
	switch {
	case a.Waiting && !known:
		return p.event("exec.approval.requested", approval(a), nil)
	case a.Waiting || !known:
		return nil
	}
	decision, by := "deny", ""
	if a.Resolved != nil && a.Resolved.Approved {
		decision = "allow-once"
	}
	if a.Resolved != nil {
		by = a.Resolved.By
	}
	return p.event("exec.approval.resolved", map[string]any{"id": id, "decision": decision, "resolvedBy": by,
		"ts": time.Now().UnixMilli()}, nil)
}

func (p *peer) approvalResolve(ctx context.Context, raw json.RawMessage) (any, error) {
	var params struct {
		ID       string `json:"id"`
		Decision string `json:"decision"`
	}
	if err := decode(raw, &params); err != nil {
		return nil, err
	}
	session, call, ok := strings.Cut(params.ID, "/")
	if !ok {
		return nil, &bridge.RequestError{Reason: "there is no approval of that id"}
	}
	s, key := p.b.c.Session(session), schemas.CallKey(call)
	switch params.Decision {
	case "allow-once":
		return map[string]any{"ok": true}, s.Approve(ctx, key, "")
	case "deny":
		return map[string]any{"ok": true}, s.Deny(ctx, key, "")
	}
	return nil, &bridge.RequestError{Reason: "the decision is not allow-once or deny"}
}
