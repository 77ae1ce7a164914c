package queries

import (
	"cmp"
	"context"
	"errors"

	"github.com/loopbus/loopbus/bus/queries/index"
	"github.com/loopbus/loopbus/schemas"
)

// nothing validates the request of queries without parameters.
func nothing(data []byte) error {
	_, err := decode[schemas.PageQuery]("page_query", data)
	return err
}

// state answers what a session is doing.
func (q *queries) state(ctx context.Context, session string, data []byte) (any, error) {
	if err := nothing(data); err != nil {
		return nil, err
	}
	return q.view(ctx, session, q.stateOf)
}

func (q *queries) stateOf(v View) (any, error) {
	state := v.State()
	for _, queue := range []*[]schemas.QueuedInput{&state.Prompts, &state.Steering, &state.FollowUp} {
		if p := newPage(len(*queue), q.room/4); !fitAll(p, *queue) { // at most a thousand inputs: the texts are too long
			for i := range *queue {
				(*queue)[i].Text = ""
			}
		}
	}
	return state, nil
}

func fitAll[T any](p *page, items []T) bool {
	for _, item := range items {
		if !p.fits(item) {
			return false
		}
	}
	return true
}

// messages answers with messages of the transcript: the newest, or those before or after a message.
func (q *queries) messages(ctx context.Context, session string, data []byte) (any, error) {
	req, err := decode[schemas.MessagesQuery]("messages_query", data)
	if err != nil {
		return nil, err
	}
	return q.view(ctx, session, func(v View) (any, error) { return q.messagesOf(v, session, req) })
}

func (q *queries) messagesOf(v View, session string, req schemas.MessagesQuery) (any, error) {
	from, to := 0, v.Messages()
	if id := cmp.Or(req.Before, req.After); id != "" {
		n := v.Find(id)
		switch {
		case n < 0:
			return nil, fail(schemas.QueryNotFound, "session %s has no message %.128q", session, id)
		case req.Before != "":
			to = n
		default:
			from = n + 1
		}
	}
	p := newPage(cmp.Or(req.Limit, pageLimit), q.room)
	answer := schemas.MessagesPage{Session: session, Seq: v.Seq(), Messages: []schemas.SessionMessage{}}
	if req.After != "" {
		n := from
		for ; n < to && q.addMessage(p, v, n, &answer); n++ {
		}
		answer.Older, answer.Newer = from > 0, n < to
		return answer, nil
	}
	n := to - 1
	for ; n >= from && q.addMessage(p, v, n, &answer); n-- {
	}
	reverse(answer.Messages)
	answer.Older, answer.Newer = n >= 0, to < v.Messages()
	return answer, nil
}

// addMessage adds the nth message to a page. Instead of one that is larger than a page it adds its id and size.
func (q *queries) addMessage(p *page, v View, n int, answer *schemas.MessagesPage) bool {
	id, m := v.Message(n)
	item := schemas.SessionMessage{ID: id}
	raw, err := schemas.Marshal(schemas.AnyMessage{Message: m})
	if err != nil || len(raw) > q.room-2*frame {
		item.Size = max(len(raw), 1)
	} else {
		item.Message = raw
	}
	if !p.fits(item) {
		return false
	}
	answer.Messages = append(answer.Messages, item)
	return true
}

func reverse[T any](items []T) {
	for i, j := 0, len(items)-1; i < j; i, j = i+1, j-1 {
		items[i], items[j] = items[j], items[i]
	}
}

// stats answers what a session has used.
func (q *queries) stats(ctx context.Context, session string, data []byte) (any, error) {
	if err := nothing(data); err != nil {
		return nil, err
	}
	e, err := q.fresh(ctx, session)
	if err != nil {
		return nil, err
	}
	s := &e.Summary
	answer := schemas.SessionStats{
		Session: session, Seq: s.Seq, Runs: s.Runs, Turns: s.Turns, Messages: e.Messages, ToolCalls: e.ToolCalls,
		ToolErrors: e.ToolErrors, Usage: s.Usage, Model: s.Model, ContextTokens: e.ContextTokens,
	}
	if s.Model != nil {
		answer.ContextWindow = q.o.Window(*s.Model)
	}
	return answer, nil
}

// fresh returns a session's entry, up to date with its log.
func (q *queries) fresh(ctx context.Context, session string) (e *index.Entry, err error) {
	err = q.o.Index.Read(ctx, session, func() error {
		e, err = q.o.Index.Fresh(ctx, session)
		return err
	})
	if errors.Is(err, index.ErrNoSession) {
		err = noSession(session)
	}
	return e, err
}

// tools answers which tools the newest run has.
func (q *queries) tools(ctx context.Context, session string, data []byte) (any, error) {
	p, c, err := q.pageOf(data)
	if err != nil {
		return nil, err
	}
	return q.view(ctx, session, func(v View) (any, error) {
		answer := schemas.ToolsPage{Session: session, Seq: v.Seq()}
		answer.Tools, answer.Next = paged(p, v.Tools(), c.Offset, func(d schemas.ToolDefinition) schemas.ToolDefinition {
			return schemas.ToolDefinition{Name: d.Name, Label: d.Label, Effect: d.Effect}
		})
		return answer, nil
	})
}
