package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/loopbus/loopbus/bus/bridge"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/schemas"
)

const (
	// pendingDays is the lifetime reported for an approval without a timeout, which the protocol requires.
	pendingDays = 365
	// maxArgs are the bytes of arguments that are shown with an approval, maxAllArgs those of all that wait: a model makes
	// as many as it likes, and large ones. The others are in the log: a message has the model's, which a service may have
	// replaced.
	maxArgs, maxAllArgs = 64 << 10, 16 << 20
)

// approvals are the waiting approvals of all sessions, once a connection has requested them.
type approvals struct {
	mu      sync.Mutex
	begun   bool
	waiting map[string]client.Approval // by id
	hold    *bridge.Hold               // of those
}

// count holds the approvals that wait.
func (a *approvals) count() error {
	bytes := 0
	for _, one := range a.waiting {
		bytes += approvalBytes(one)
	}
	return a.hold.Set(bytes)
}

// approvalBytes estimates the memory of an approval: it is in the list, in the client that follows all of them, and
// twice in an answer.
func approvalBytes(a client.Approval) int { return 4 * (256 + len(a.Request.Args)) }

// approvalID consists of the session, the call and the request's digest, so that an answer applies to what was shown.
func approvalID(session string, asked schemas.ApprovalRequested) string {
	id := session + "/" + string(asked.Call)
	if asked.Digest != "" {
		id += "/" + asked.Digest
	}
	return id
}

// approvalList returns the waiting approvals. From the first call on, the connection receives every change.
func (p *peer) approvalList(ctx context.Context, req *request) (any, error) {
	p.asks.mu.Lock()
	if p.asks.begun {
		defer p.asks.mu.Unlock()
		all := []map[string]any{}
		for _, id := range slices.Sorted(maps.Keys(p.asks.waiting)) {
			all = append(all, approval(p.asks.waiting[id]))
		}
		return all, nil
	}
	p.asks.mu.Unlock()
	req.view = p.b.o.Views.Hold(p.name)
	page, err := p.pending(ctx, req.view)
	if err != nil {
		return nil, err
	}
	all := []map[string]any{}
	for _, a := range page {
		all = append(all, approval(a))
	}
	p.asks.mu.Lock()
	defer p.asks.mu.Unlock()
	if !p.asks.begun {
		p.asks.begun, p.asks.waiting = true, map[string]client.Approval{}
		p.asks.hold, req.view = req.view, nil
		for _, a := range page {
			p.asks.waiting[approvalID(a.Session, a.Request)] = a
		}
		p.parts.Go(func() { p.followApprovals(ctx) })
	}
	return all, nil
}

// pending queries the approvals that wait now, and holds them.
func (p *peer) pending(ctx context.Context, hold *bridge.Hold) (all []client.Approval, err error) {
	q := schemas.SessionsQuery{Status: []schemas.SessionStatus{schemas.SessionWaitingForApproval},
		Limit: schemas.MaxQueryLimit}
	page, err := p.b.c.Sessions(ctx, q)
	if err != nil {
		return nil, err
	}
	bytes, left := 0, maxAllArgs
	for _, s := range page.Sessions {
		waiting, err := p.waiting(ctx, s.Session, &left)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, bridge.ErrFull):
			return nil, err
		case err != nil:
			// Deleting a session removes its payloads before its log. This must not hide the approvals of other sessions.
			// If they can be read later, they arrive as a change: changes begin with everything that waits.
			p.b.o.Logger.Warn("reading the approvals of a session failed", "session", s.Session, "err", err)
		default:
			all = append(all, waiting...)
		}
		for _, a := range waiting {
			bytes += approvalBytes(a)
		}
		if err := hold.Set(bytes); err != nil {
			return nil, fmt.Errorf("the approvals that wait, %d bytes: %w", bytes, err)
		}
	}
	return all, nil
}

// waiting returns the waiting approvals of a session, with arguments of at most maxArgs and of left bytes together.
func (p *peer) waiting(ctx context.Context, session string, left *int) (all []client.Approval, err error) {
	f, err := p.open(ctx, p.b.c.Session(session), true)
	if err != nil {
		return nil, err
	}
	defer f.Room.Release()
	for _, c := range bridge.Waiting(&f.State) {
		asked, err := f.Asked(ctx, c.Key)
		if err != nil {
			return nil, err
		}
		a := client.Approval{Session: session, Time: c.Approval.RequestedAt, Request: *asked}
		if n := len(asked.Args); n > min(maxArgs, *left) {
			a.Request.Args, a.LeftOut = nil, n
		}
		*left -= len(a.Request.Args)
		all = append(all, a)
	}
	return all, nil
}

func approval(a client.Approval) map[string]any {
	expires := schemas.After(a.Time, a.Request.TimeoutMs)
	if a.Request.TimeoutMs == 0 {
		expires = a.Time.AddDate(0, 0, pendingDays)
	}
	request := map[string]any{"sessionKey": a.Session, "toolName": a.Request.ToolName, "reason": a.Request.Reason,
		"allowedDecisions": []string{"allow-once", "deny"}}
	if a.LeftOut > 0 {
		request["command"] = fmt.Sprintf("%s (its arguments of %d bytes are in the session's approval_requested)",
			a.Request.ToolName, a.LeftOut)
	} else {
		request["command"], request["args"] = a.Request.ToolName+" "+string(a.Request.Args), a.Request.Args
	}
	return map[string]any{"id": approvalID(a.Session, a.Request), "createdAtMs": a.Time.UnixMilli(),
		"expiresAtMs": expires.UnixMilli(), "request": request}
}

// followApprovals sends changes to the connection.
func (p *peer) followApprovals(ctx context.Context) {
	defer func() {
		p.asks.mu.Lock()
		defer p.asks.mu.Unlock()
		p.asks.hold.Release()
	}()
	for a, err := range p.b.asked.all(ctx) {
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
	_, known := p.asks.waiting[id]
	if a.Waiting {
		// A call waits for one request at a time. Another one of the same key is that of a session that was deleted and
		// started again between the first list and the first change, so that no change has reported its end.
		key := a.Session + "/" + string(a.Request.Call) + "/"
		maps.DeleteFunc(p.asks.waiting, func(other string, _ client.Approval) bool { return strings.HasPrefix(other, key) })
		p.asks.waiting[id] = a
	} else {
		delete(p.asks.waiting, id)
	}
	err := p.asks.count()
	p.asks.mu.Unlock()
	switch {
	case err != nil:
		return err
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
