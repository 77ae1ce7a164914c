package gateway

import (
	"context"
	"sync"
	"time"

	"github.com/loopbus/loopbus/bus/bridge"
	"github.com/loopbus/loopbus/schemas"
)

// changesEvery is how often the index is queried for changes while a connection is subscribed to the list of
// sessions. The events of all sessions would be much more than the few members of a list.
const changesEvery = time.Second

func (p *peer) sessionsList(ctx context.Context, req *request) (any, error) {
	var params struct {
		Limit  int    `json:"limit"`
		Search string `json:"search"`
	}
	if err := req.decode(&params); err != nil {
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
func (p *peer) sessionsSubscribe(ctx context.Context, _ *request) (any, error) {
	p.changes.mu.Lock()
	defer p.changes.mu.Unlock()
	if p.changes.stop == nil {
		now, err := p.b.c.Sessions(ctx, schemas.SessionsQuery{Limit: 1})
		if err != nil {
			return nil, err
		}
		follow, stop := context.WithCancel(ctx)
		p.changes.stop = stop
		p.parts.Go(func() { p.followSessions(follow, now.Revision) })
	}
	return map[string]any{"subscribed": true}, nil
}

func (p *peer) sessionsUnsubscribe(context.Context, *request) (any, error) {
	p.changes.mu.Lock()
	defer p.changes.mu.Unlock()
	if p.changes.stop != nil {
		p.changes.stop()
		p.changes.stop = nil
	}
	return map[string]any{"subscribed": false}, nil
}

// followSessions sends the changes after a revision of the index until ctx ends.
func (p *peer) followSessions(ctx context.Context, revision uint64) {
	tick := time.NewTicker(changesEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		told, err := p.tellChanges(ctx, revision)
		if err == nil {
			revision = told
			continue
		}
		now, failed := p.b.c.Sessions(ctx, schemas.SessionsQuery{Limit: 1})
		if failed == nil && now.Revision < revision { // the index was lost and begins again
			p.broken(ctx, "the list of sessions", err)
			return
		}
		if ctx.Err() == nil { // the next answer includes these changes
			p.b.o.Logger.Warn("reading the changes of sessions failed, will retry", "err", err)
		}
	}
}

// tellChanges sends an event for each session that has changed after a revision of the index, and returns the revision
// up to which it has. The changes of a session since the last time are one event.
func (p *peer) tellChanges(ctx context.Context, revision uint64) (uint64, error) {
	q := schemas.SessionsQuery{Revision: revision, Limit: schemas.MaxQueryLimit}
	for {
		page, err := p.b.c.Sessions(ctx, q)
		if err != nil {
			return 0, err
		}
		for _, s := range page.Sessions {
			row := sessionRow(s)
			row["sessionKey"], row["status"], row["ts"] = s.Session, s.Status, time.Now().UnixMilli()
			if err := p.event("sessions.changed", row, nil); err != nil {
				return 0, err
			}
		}
		if page.Next == "" {
			return page.Revision, nil
		}
		q.Cursor = page.Next
	}
}

type keyParams struct {
	Key string `json:"key"`
}

func (p *peer) subscribe(ctx context.Context, req *request) (any, error) {
	var params keyParams
	if err := req.decode(&params); err != nil {
		return nil, err
	}
	if params.Key == "" {
		return nil, &bridge.RequestError{Reason: "key is missing"}
	}
	_, err := p.subs.add(ctx, params.Key)
	return map[string]any{"subscribed": true, "key": params.Key}, err
}

func (p *peer) unsubscribe(_ context.Context, req *request) (any, error) {
	var params keyParams
	if err := req.decode(&params); err != nil {
		return nil, err
	}
	p.subs.remove(params.Key)
	return map[string]any{"subscribed": false, "key": params.Key}, nil
}
