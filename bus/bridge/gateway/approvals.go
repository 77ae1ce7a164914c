package gateway

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/loopbus/loopbus/bus/bridge"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/schemas"
)

// pendingDays is the lifetime reported for an approval without a timeout, which the protocol requires.
const pendingDays = 365

// approvals are the waiting approvals of all sessions, once a connection has requested them.
type approvals struct {
	mu      sync.Mutex
	begun   bool
	waiting map[string]map[string]any // by id
}

// approvalID consists of the session, the call and the request's digest, so that an answer applies to what was shown.
func approvalID(session string, asked schemas.ApprovalRequested) string {
	id := session + "/" + string(asked.Call)
	if asked.Digest != "" {
		id += "/" + asked.Digest
	}
	return id
}

// approvalList returns the waiting approvals. From the first call on, the connection receives every change.
func (p *peer) approvalList(ctx context.Context, _ *request) (any, error) {
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

// pending queries the approvals that wait now.
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
			// Deleting a session removes its payloads before its log. This must not hide the approvals of other sessions.
			// If they can be read later, they arrive as a change: changes begin with everything that waits.
			p.b.o.Logger.Warn("reading the approvals of a session failed", "session", s.Session, "err", err)
		default:
			all = append(all, waiting...)
		}
	}
	return all, nil
}

// waiting returns the waiting approvals of a session.
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
	expires := schemas.After(a.Time, a.Request.TimeoutMs)
	if a.Request.TimeoutMs == 0 {
		expires = a.Time.AddDate(0, 0, pendingDays)
	}
	return map[string]any{"id": approvalID(a.Session, a.Request), "createdAtMs": a.Time.UnixMilli(),
		"expiresAtMs": expires.UnixMilli(), "request": map[string]any{"sessionKey": a.Session,
			"command": a.Request.ToolName + " " + string(a.Request.Args), "toolName": a.Request.ToolName,
			"args": a.Request.Args, "reason": a.Request.Reason, "allowedDecisions": []string{"allow-once", "deny"}}}
}

// followApprovals sends changes to the connection.
func (p *peer) followApprovals(ctx context.Context) {
	for a, err := range p.b.c.Approvals(ctx) {
		if err == nil {
			err = p.approvalChanged(a)
		}
		if err != nil {
			p.broken(ctx, "the approvals", err)
			return
		}
	}
}

func (p *peer) approvalChanged(a client.Approval) error {
	id := approvalID(a.Session, a.Request)
	p.asks.mu.Lock()
	known := p.asks.waiting[id] != nil
	if a.Waiting {
		// A call waits for one request at a time. Another one of the same key is that of a session that was deleted and
		// started again between the first list and the first change, so that no change has reported its end.
		key := a.Session + "/" + string(a.Request.Call) + "/"
		maps.DeleteFunc(p.asks.waiting, func(other string, _ map[string]any) bool { return strings.HasPrefix(other, key) })
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

func (p *peer) approvalResolve(ctx context.Context, req *request) (any, error) {
	var params struct {
		ID       string `json:"id"`
		Decision string `json:"decision"`
	}
	if err := req.decode(&params); err != nil {
		return nil, err
	}
	session, call, ok := strings.Cut(params.ID, "/")
	if !ok {
		return nil, &bridge.RequestError{Reason: "there is no approval of that id"}
	}
	call, digest, _ := strings.Cut(call, "/")
	s, asked := p.b.c.Session(session), schemas.ApprovalRequested{Call: schemas.CallKey(call), Digest: digest}
	switch params.Decision {
	case "allow-once":
		return map[string]any{"ok": true}, s.Approve(ctx, asked, "")
	case "deny":
		return map[string]any{"ok": true}, s.Deny(ctx, asked, "")
	}
	return nil, &bridge.RequestError{Reason: "the decision is not allow-once or deny"}
}
