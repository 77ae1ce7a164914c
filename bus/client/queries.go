package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// serviceError is the header that marks an answer of a NATS service as an error.
const serviceError = "Nats-Service-Error-Code"

// Sessions returns a page of sessions, those with the latest activity first. The zero query selects the first page of
// all sessions; [schemas.SessionsQuery] describes filters and paging.
//
// Runners answer this and the other queries. If a runner refuses a query, the error wraps a [*schemas.QueryError]. If
// no runner answers, the client retries until the context or [Options].RequestTimeout expires.
func (c *Client) Sessions(ctx context.Context, q schemas.SessionsQuery) (page schemas.SessionsPage, err error) {
	return page, c.query(ctx, c.subjects.QueryAll(schemas.QuerySessions), q, &page)
}

// Models lists the models in the catalogue of one of the runners: those that [schemas.SetModel] may name. A runner
// also accepts other model ids of providers that have an open list, and models that other runners serve.
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

// State returns what the session is doing. To follow it from there, call [Session.Watch] with the state's Seq plus
// one.
func (s *Session) State(ctx context.Context) (state schemas.SessionState, err error) {
	return state, s.query(ctx, schemas.QueryState, struct{}{}, &state)
}

// Stats returns what the session has used.
func (s *Session) Stats(ctx context.Context) (stats schemas.SessionStats, err error) {
	return stats, s.query(ctx, schemas.QueryStats, struct{}{}, &stats)
}

// Tree returns a page of the session's tree. The first page, for the zero query, includes the session's family: the
// session that it was branched from and those branched from it. [schemas.SessionTree] describes paging.
func (s *Session) Tree(ctx context.Context, q schemas.PageQuery) (tree schemas.SessionTree, err error) {
	return tree, s.query(ctx, schemas.QueryTree, q, &tree)
}

// Messages returns a page of the transcript. The zero query selects the newest messages.
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
		err = c.retry(ctx, func(ctx context.Context) error {
			m, err := natsio.Request(ctx, c.nc, subject, body)
			if err != nil {
				return c.explain(err, subject)
			}
			return readAnswer(m, answer)
		})
	}
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("client: query %s: no runner answers; is one running with this server and prefix?: %w", subject,
			err)
	case err != nil:
		return fmt.Errorf("client: query %s: %w", subject, err)
	}
	return nil
}

// readAnswer decodes the answer to a query, or returns the error that it contains.
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
