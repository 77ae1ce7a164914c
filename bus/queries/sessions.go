package queries

import (
	"cmp"
	"context"
	"slices"

	"github.com/loopbus/loopbus/bus/queries/index"
	"github.com/loopbus/loopbus/schemas"
)

// Default page sizes of sessions and of other lists.
const (
	sessionsLimit = 50
	pageLimit     = 100
)

// sessions answers with a page of all sessions.
func (q *queries) sessions(ctx context.Context, _ string, data []byte) (any, error) {
	req, err := decode[schemas.SessionsQuery]("sessions_query", data)
	if err != nil {
		return nil, err
	}
	c, err := decodeCursor(req.Cursor)
	if err != nil {
		return nil, err
	}
	if req.Cursor == "" {
		c.Changed = req.Revision
	}
	// The previous page may have come from a runner whose index was ahead.
	if err := q.o.Index.Wait(ctx, max(c.Since, c.Changed)); err != nil {
		return nil, err
	}
	v := q.o.Index.View()
	if req.Cursor == "" {
		c.Since = v.Revision
	}
	answer := schemas.SessionsPage{Revision: v.Revision, Sessions: []schemas.SessionSummary{}, Partial: v.Partial}
	p := newPage(cmp.Or(req.Limit, sessionsLimit), q.room)
	match := matcher(req)
	take := func(e *index.Entry) bool {
		if !match(e) {
			return true
		}
		if !p.fits(e.Summary) {
			return false
		}
		answer.Sessions = append(answer.Sessions, e.Summary)
		return true
	}
	if next, more := c.walk(v.Entries, take); more {
		answer.Next = next.encode()
	}
	return answer, nil
}

// walk calls take with the entries of a page until take returns false or there are no more. If there are more, it
// returns the cursor of the next page.
func (c cursor) walk(entries []*index.Entry, take func(e *index.Entry) bool) (next cursor, more bool) {
	if c.Changed == 0 {
		rest := entries
		if c.Place != (index.Place{}) {
			rest = after(entries, c.Place)
		}
		for _, e := range rest {
			if e.Revision() > c.Since {
				continue
			}
			if !take(e) {
				return c, true
			}
			c.Place = e.Place()
		}
		c.Changed = c.Since
	}
	for _, e := range changedSince(entries, c.Changed) {
		if !take(e) {
			return c, true
		}
		c.Changed = e.Revision()
	}
	return c, false
}

// changedSince returns the entries that changed after a revision, in the order of their changes.
func changedSince(entries []*index.Entry, revision uint64) (changed []*index.Entry) {
	for _, e := range entries {
		if e.Revision() > revision {
			changed = append(changed, e)
		}
	}
	slices.SortFunc(changed, func(a, b *index.Entry) int { return cmp.Compare(a.Revision(), b.Revision()) })
	return changed
}

// matcher returns a function that reports whether a session matches a query.
func matcher(req schemas.SessionsQuery) func(e *index.Entry) bool {
	text := newFolded(req.Text)
	return func(e *index.Entry) bool {
		s := &e.Summary
		switch {
		case len(req.Status) > 0 && !slices.Contains(req.Status, s.Status),
			req.Profile != "" && s.Profile != req.Profile,
			req.Parent != "" && (s.Parent == nil || s.Parent.Session != req.Parent),
			!req.After.IsZero() && s.LastActivity.Before(req.After),
			!req.Before.IsZero() && !s.LastActivity.Before(req.Before):
			return false
		}
		return text.in(s.Title) || text.in(s.LastMessage)
	}
}
