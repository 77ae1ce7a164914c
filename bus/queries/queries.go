package queries

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/queries/index"
	"github.com/loopbus/loopbus/bus/service"
	"github.com/loopbus/loopbus/schemas"
)

// A View is what a session's log comes to at an event, which does not change. Messages counts those of the transcript,
// Message returns the nth of them from 0, and Find which of them has an id, or -1. Label is that of an entry of its
// tree.
type View interface {
	Seq() uint64
	State() schemas.SessionState
	Tools() []schemas.ToolDefinition
	Messages() int
	Message(n int) (id string, m schemas.Message)
	Find(id string) int
	Label(entry string) string
}

// Logs are where sessions are read. Seek returns a place right before an event, in the middle of a log: what
// [index.Logs.Between] takes.
type Logs interface {
	index.Logs
	Seek(ctx context.Context, session string, event uint64) (seq, after uint64, err error)
}

// Options are what queries are answered with. Index, Logs, View and Tree are required.
type Options struct {
	Index *index.Index
	Logs  Logs
	// View folds the log of a session. One of a session without a log has the sequence 0.
	View func(ctx context.Context, session string) (View, error)
	// Tree begins the fold of a log to the entries of its tree, or goes on with it from a place.
	Tree func(leaf, before string) Tree
	// Window returns how many tokens a model takes, 0 where that is not known; nil knows none.
	Window func(m schemas.ModelRef) int64
	// Models are those that sessions may use; nil knows none. They are asked for at every query.
	Models func() []schemas.ModelInfo
	// Damaged is what errors about a log that is not what its writers wrote wrap.
	Damaged error
	// Logger records answers that could not be given; nil discards.
	Logger *slog.Logger
}

// readers is how many logs are read at once for queries: the rest of the runner has work to do, and folding takes
// memory.
const readers = 4

// maxRequest is the size of a request in bytes.
const maxRequest = 16 << 10

// queries answers.
type queries struct {
	o        Options
	subjects schemas.Subjects
	room     int // bytes of an answer
	reading  chan struct{}
}

// handler answers one kind of query of a session, or of all where that is "".
type handler func(q *queries, ctx context.Context, session string, data []byte) (any, error)

// The queries there are.
var (
	ofAll = map[schemas.QueryKind]handler{
		schemas.QuerySessions:  (*queries).sessions,
		schemas.QueryApprovals: (*queries).allApprovals,
		schemas.QueryModels:    (*queries).models,
	}
	ofOne = map[schemas.QueryKind]handler{
		schemas.QueryState:     (*queries).state,
		schemas.QueryMessages:  (*queries).messages,
		schemas.QueryEvents:    (*queries).events,
		schemas.QueryTree:      (*queries).tree,
		schemas.QueryStats:     (*queries).stats,
		schemas.QueryTools:     (*queries).tools,
		schemas.QueryApprovals: (*queries).approvals,
		schemas.QueryOutcome:   (*queries).outcome,
	}
)

// Endpoints are those of a service that answers queries on a connection ([service.Run]).
func Endpoints(c *bus.Conn, o Options) []service.Endpoint {
	const margin = 4 << 10 // for the headers of an answer
	if o.Window == nil {
		o.Window = func(schemas.ModelRef) int64 { return 0 }
	}
	if o.Models == nil {
		o.Models = func() []schemas.ModelInfo { return nil }
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	q := &queries{
		o: o, subjects: c.Subjects(), room: int(min(c.NATS().MaxPayload(), 1<<20)) - margin,
		reading: make(chan struct{}, readers),
	}
	var list []service.Endpoint
	for kind, h := range ofAll {
		list = append(list, q.endpoint("all-"+string(kind), q.subjects.QueryAll(kind), h))
	}
	for kind, h := range ofOne {
		list = append(list, q.endpoint(string(kind), q.subjects.Query("*", kind), h))
	}
	return list
}

func (q *queries) endpoint(name, subject string, h handler) service.Endpoint {
	return service.Endpoint{Name: name, Subject: subject, Queue: schemas.QueueQueries,
		Share: func(subject string) string {
			session, _, _ := q.subjects.ParseQuery(subject) // what cannot be read is refused at once
			return session
		},
		Answer: func(ctx context.Context, r service.Request) ([]byte, error) {
			payload, err := q.answer(ctx, h, r)
			if err != nil {
				return nil, q.refusal(ctx, r.Subject, err)
			}
			return payload, nil
		}}
}

func (q *queries) answer(ctx context.Context, h handler, r service.Request) ([]byte, error) {
	session, _, err := q.subjects.ParseQuery(r.Subject)
	if err != nil {
		return nil, invalid("%v", err)
	}
	if len(r.Data) > maxRequest {
		return nil, invalid("the request has %d bytes, more than %d", len(r.Data), maxRequest)
	}
	answer, err := h(q, ctx, session, r.Data)
	if err != nil {
		return nil, err
	}
	payload, err := schemas.Marshal(answer)
	if err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	if most := q.room; len(payload) > most {
		return nil, fmt.Errorf("the answer has %d bytes, and a message takes %d", len(payload), most)
	}
	return payload, nil
}

// failure is a [schemas.QueryError] on its way to the client.
type failure struct{ schemas.QueryError }

// Error is code and reason.
func (f *failure) Error() string { return f.QueryError.Error() }

// Answer says the error in the way of NATS services, and as JSON.
func (f *failure) Answer() (code int, reason string, payload []byte) {
	payload, _ = schemas.Marshal(f.QueryError) // two texts always encode
	return f.Code.HTTPCode(), f.QueryError.Error(), payload
}

func fail(code schemas.QueryCode, format string, args ...any) error {
	return &failure{schemas.QueryError{Code: code, Reason: fmt.Sprintf(format, args...)}}
}

func invalid(format string, args ...any) error { return fail(schemas.QueryInvalid, format, args...) }

// Busy is the error of a service that has too many queries at once.
func Busy() error { return fail(schemas.QueryBusy, "too many queries at once, ask again") }

// refusal says an error to the client: what it did wrong, or what it may expect. What has gone wrong inside is for the
// operator.
func (q *queries) refusal(ctx context.Context, subject string, err error) error {
	var known *failure
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, index.ErrNoSession):
		return fail(schemas.QueryNotFound, "there is no such session")
	case q.o.Damaged != nil && errors.Is(err, q.o.Damaged):
		return fail(schemas.QueryDamaged, "the session's log is damaged: %v", err)
	case ctx.Err() != nil:
		return fail(schemas.QueryUnavailable, "what is stored could not be read in time")
	}
	q.o.Logger.Warn("query not answered", "subject", subject, "err", err)
	return fail(schemas.QueryInternal, "the query could not be answered; the runner's log says why")
}

// read waits for its turn to read a log and calls f.
func (q *queries) read(ctx context.Context, f func() error) error {
	select {
	case q.reading <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-q.reading }()
	return f()
}

// decode validates a request and reads it; an empty one is {}.
func decode[T any](name string, data []byte) (request T, err error) {
	if len(bytes.TrimSpace(data)) == 0 {
		data = []byte("{}")
	}
	if err := schemas.ParseQueryRequest(name, data, &request); err != nil {
		return request, invalid("%v", err)
	}
	return request, nil
}
