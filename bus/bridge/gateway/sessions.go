package gateway

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/loopbus/loopbus/bus/bridge"
	"github.com/loopbus/loopbus/schemas"
)

// changesEvery is how often the index is queried for changes while a connection is subscribed to the list of
// sessions. The events of all sessions would be much more than the few members of a list.
const changesEvery = time.Second

func (p *peer) sessionsList(ctx context.Context, raw json.RawMessage) (any, error) {
	var params struct {
		Limit  int    `json:"limit"`
		Search string `json:"search"`
	}
	if err := decode(raw, &params); err != nil {
		return nil, err
	}
	page, err := p.b.c.Sessions(ctx, schemas.SessionsQuery{Text: params.Search,
		Limit: min(max(params.Limit, 0), schemas.MaxQueryLimit)})
	if err != nil {
		return nil, err
	}
	rows := []any{}
	for _, s := range page.Sessions {
		rows = append(rows, sessionRow(s))
	}
	return map[string]any{"ts": time.Now().UnixMilli(), "count": len(rows), "sessions": rows}, nil
}

func sessionRow(s schemas.SessionSummary) map[string]any {
	return map[string]any{"key": s.Session, "sessionId": s.Session, "kind": "direct", "derivedTitle": s.Title,
		"lastMessagePreview": s.LastMessage, "updatedAt": s.LastActivity.UnixMilli()}
}

// changes is the subscription of a connection to the list of sessions.
type changes struct {
	mu   sync.Mutex
	stop context.CancelFunc // nil if not subscribed
}

// sessionsSubscribe sends the connection an event sessions.changed for each session that changes from now on.
// Subscribing again changes nothing.
func (p *peer) sessionsSubscribe(ctx context.Context, _ json.RawMessage) (any, error) {
	p.changes.mu.Lock()
	defer p.changes.mu.Unlock()
	if p.changes.stop == nil {
		known, err := p.changed(ctx, nil)
		if err != nil {
			return nil, err
		}
		follow, stop := context.WithCancel(ctx)
		p.changes.stop = stop
		p.parts.Go(func() { p.followSessions(follow, known) })
	}
	return map[string]any{"subscribed": true}, nil
}

func (p *peer) sessionsUnsubscribe(context.Context, json.RawMessage) (any, error) {
	p.changes.mu.Lock()
	defer p.changes.mu.Unlock()
	if p.changes.stop != nil {
		p.changes.stop()
		p.changes.stop = nil
	}
	return map[string]any{"subscribed": false}, nil
}

// followSessions sends changes until ctx ends.
func (p *peer) followSessions(ctx context.Context, known []schemas.SessionSummary) {
	tick := time.NewTicker(changesEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		page, err := p.changed(ctx, known)
		if err != nil {
			continue // the next answer includes these changes
		}
		seen := make(map[string]uint64, len(known))
		for _, s := range known {
			seen[s.Session] = s.Seq
		}
		for _, s := range page {
			if seen[s.Session] == s.Seq {
				continue
			}
			row := sessionRow(s)
			row["sessionKey"], row["status"], row["ts"] = s.Session, s.Status, time.Now().UnixMilli()
			if p.event("sessions.changed", row, nil) != nil {
				return
			}
		}
		if len(page) > 0 {
			known = page
		}
	}
}

// changed returns the sessions whose last activity is not before that of the newest known one, newest first. It
// includes that one, so that another change in the same instant is noticed. Without a known one it returns only the
// newest session.
func (p *peer) changed(ctx context.Context, known []schemas.SessionSummary) ([]schemas.SessionSummary, error) {
	q := schemas.SessionsQuery{Limit: 1}
	if len(known) > 0 {
		q.Limit, q.After = schemas.MaxQueryLimit, known[0].LastActivity
	}
	page, err := p.b.c.Sessions(ctx, q)
	return page.Sessions, err
}

type keyParams struct {
	Key string `json:"key"`
}

func (p *peer) subscribe(ctx context.Context, raw json.RawMessage) (any, error) {
	var params keyParams
	if err := decode(raw, &params); err != nil {
		return nil, err
	}
	if params.Key == "" {
		return nil, &bridge.RequestError{Reason: "key is missing"}
	}
	return map[string]any{"subscribed": true, "key": params.Key}, p.subs.add(ctx, params.Key)
}

func (p *peer) unsubscribe(_ context.Context, raw json.RawMessage) (any, error) {
	var params keyParams
	if err := decode(raw, &params); err != nil {
		return nil, err
	}
	p.subs.remove(params.Key)
	return map[string]any{"subscribed": false, "key": params.Key}, nil
}
