package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/schemas"
)

// serviceError is the header of a NATS service's answer that is an error.
const serviceError = "Nats-Service-Error-Code"

// Sessions asks for a page of the sessions there are, those with the latest activity first. The zero query is for the
// first page of all of them; see [schemas.SessionsQuery] for how to choose, and for the page that follows.
//
// This and the other queries are answered by one of the runners. A query that is refused is an error that wraps a
// [*schemas.QueryError]. One that nobody can answer at the moment is asked again until its time is over.
func (c *Client) Sessions(ctx context.Context, q schemas.SessionsQuery) (page schemas.SessionsPage, err error) {
	return page, c.query(ctx, c.subjects.QueryAll(schemas.QuerySessions), q, &page)
}

// Models lists the models in the catalogue of one of the runners: those that [schemas.SetModel] may name. A runner also
// takes other ids of providers whose lists are open, and models that other runners serve.
func (c *Client) Models(ctx context.Context) (models []schemas.ModelInfo, err error) {
	q := schemas.PageQuery{Limit: schemas.MaxQueryLimit}
	for {
		var page schemas.ModelsPage
		if err := c.query(ctx, c.subjects.QueryAll(schemas.QueryModels), q, &page); err != nil {
			return nil, err
		}
		if models = append(models, page.Models...); page.Next == "" {
			return models, nil
		}
		q.Cursor = page.Next
	}
}

// State asks what the session is doing. [Session.Watch] from the event after its Seq goes on from there.
func (s *Session) State(ctx context.Context) (state schemas.SessionState, err error) {
	return state, s.query(ctx, schemas.QueryState, struct{}{}, &state)
}

// Stats asks what the session has used.
func (s *Session) Stats(ctx context.Context) (stats schemas.SessionStats, err error) {
	return stats, s.query(ctx, schemas.QueryStats, struct{}{}, &stats)
}

// Tree asks for a page of the session's tree; the first, for which the query is zero, has also its family: what it was
// branched from, and what was branched from it. See [schemas.SessionTree] for the page that follows.
func (s *Session) Tree(ctx context.Context, q schemas.PageQuery) (tree schemas.SessionTree, err error) {
	return tree, s.query(ctx, schemas.QueryTree, q, &tree)
}

// Messages asks for a page of the transcript; the zero query is for the newest messages.
func (s *Session) Messages(ctx context.Context, q schemas.MessagesQuery) (page schemas.MessagesPage, err error) {
	return page, s.query(ctx, schemas.QueryMessages, q, &page)
}

func (s *Session) query(ctx context.Context, kind schemas.QueryKind, request, answer any) error {
	if err := schemas.CheckSession(s.id); err != nil {
		return fmt.Errorf("client: query %s: %w", kind, err)
	}
	return s.c.query(ctx, s.c.subjects.Query(s.id, kind), request, answer)
}

func (c *Client) query(ctx context.Context, subject string, request, answer any) error {
	body, err := schemas.Marshal(request)
	if err == nil {
		err = c.persist(ctx, func(ctx context.Context) error {
			m, err := c.nc.RequestWithContext(ctx, subject, body)
			if err != nil {
				return c.explain(err, subject)
			}
			return readAnswer(m, answer)
		})
	}
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("client: query %s: no runner answers: %w", subject, err)
	case err != nil:
		return fmt.Errorf("client: query %s: %w", subject, err)
	}
	return nil
}

// readAnswer decodes an answer, or returns what it refuses the query with.
func readAnswer(m *nats.Msg, answer any) error {
	code := m.Header.Get(serviceError)
	if code == "" {
		return json.Unmarshal(m.Data, answer)
	}
	refused := new(schemas.QueryError)
	if json.Unmarshal(m.Data, refused) != nil || refused.Code == "" {
		return fmt.Errorf("the service answers %s: %s", code, m.Header.Get("Nats-Service-Error"))
	}
	return refused
}
