package queries

import (
	"cmp"
	"context"

	"github.com/loopbus/loopbus/schemas"
)

// events answers with the events of a session after a sequence.
func (q *queries) events(ctx context.Context, session string, data []byte) (any, error) {
	req, err := decode[schemas.EventsQuery]("events_query", data)
	if err != nil {
		return nil, err
	}
	var answer schemas.EventsPage
	err = q.o.Index.Read(ctx, session, func() error {
		answer, err = q.eventsAfter(ctx, session, req)
		return err
	})
	return answer, err
}

func (q *queries) eventsAfter(ctx context.Context, session string, req schemas.EventsQuery) (answer schemas.EventsPage,
	err error) {
	head, upTo, err := q.o.Logs.Head(ctx, session)
	if err != nil {
		return answer, err
	}
	if head == 0 {
		return answer, noSession(session)
	}
	answer = schemas.EventsPage{Session: session, Seq: head, Events: []schemas.QueriedEvent{}}
	if req.After >= head {
		return answer, nil
	}
	seq, place := uint64(0), uint64(0)
	if req.After > 0 {
		if seq, place, err = q.o.Logs.Seek(ctx, session, req.After+1); err != nil {
			return answer, err
		}
	}
	p := newPage(cmp.Or(req.Limit, pageLimit), q.room)
	ctx, end := q.o.Loads.Stream(ctx)
	defer end()
	for e, err := range q.o.Logs.Between(ctx, session, seq, place, upTo) {
		if err != nil {
			return answer, err
		}
		if e.Seq <= req.After {
			continue
		}
		if answer.More, err = q.addEvent(p, e, &answer); answer.More || err != nil {
			return answer, err
		}
	}
	return answer, nil
}

// addEvent adds an event to a page, without its data if it is larger than a page. full reports whether the page is
// full.
func (q *queries) addEvent(p *page, e schemas.Event, answer *schemas.EventsPage) (full bool, err error) {
	item, err := q.queried(e)
	if err != nil {
		return false, err
	}
	if !p.fits(item) {
		return true, nil
	}
	answer.Events = append(answer.Events, item)
	return false, nil
}

// queried returns an event in the form of an answer, without its data if that would not fit.
func (q *queries) queried(e schemas.Event) (schemas.QueriedEvent, error) {
	item, err := schemas.NewQueriedEvent(e)
	if len(item.Data) > q.room-2*frame {
		item.DataSize, item.Data = len(item.Data), nil
	}
	return item, err
}

// outcome answers what happened to a command.
func (q *queries) outcome(ctx context.Context, session string, data []byte) (any, error) {
	req, err := decode[schemas.OutcomeQuery]("outcome_query", data)
	if err != nil {
		return nil, err
	}
	e, seq, found, err := q.o.Index.Outcome(ctx, session, req.CommandID)
	switch {
	case err != nil:
		return nil, err
	case seq == 0:
		return nil, noSession(session)
	case !found:
		return nil, fail(schemas.QueryNotFound,
			"the log of session %s, which ends with event %d, does not know the command %.128q", session, seq, req.CommandID)
	}
	answer := schemas.Outcome{Session: session, Seq: seq}
	answer.Event, err = q.queried(e)
	return answer, err
}
