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
	"github.com/loopbus/loopbus/schemas/turns"
)

// A View is the immutable state of a session at one event. Messages returns the number of messages in the transcript,
// Message the nth of them from 0, and Find the index of the message with an id, or -1. Label returns the label of a
// tree entry.
type View interface {
	Seq() uint64
	State() schemas.SessionState
	Tools() []schemas.ToolDefinition
	Messages() int
	Message(n int) (id string, m schemas.Message)
	Find(id string) int
	Label(entry string) string
}

// Logs reads sessions. Seek returns a position in the middle of a log, right before an event, in the form that
// [index.Logs.Between] takes.
type Logs interface {
	index.Logs
	Seek(ctx context.Context, session string, event uint64) (seq, after uint64, err error)
}

// Options configures [Endpoints]. Index, Logs, View and Tree are required.
type Options struct {
	Index *index.Index
	Logs  Logs
	// View folds the log of a session. Without a log, the view's sequence is 0.
	View func(ctx context.Context, session string) (View, error)
	// Tree starts the fold of a log to its tree entries, or continues it from a position.
	Tree func(leaf, before string) Tree
	// Window returns the context window of a model in tokens, 0 if it is unknown. A nil Window knows no model.
	Window func(m schemas.ModelRef) int64
	// Models returns the models that sessions may use; it is called for every query. Nil means none.
	Models func() []schemas.ModelInfo
	// Damaged is wrapped by errors about logs that are not what their writers wrote.
	Damaged error
	// Loads bounds the large logs that are read at once; nil lets all be read.
	Loads *turns.Loads
	// Logger records queries that could not be answered; nil discards.
	Logger *slog.Logger
}

// maxRequest limits the size of a request in bytes.
const maxRequest = 16 << 10

// queries answers queries.
type queries struct {
	o        Options
	subjects schemas.Subjects
	room     int // bytes available for an answer
}

// handler answers one kind of query about a session, or about all sessions if session is "".
type handler func(q *queries, ctx context.Context, session string, data []byte) (any, error)

// Handlers of queries about all sessions, and about one.
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

// Endpoints returns the endpoints of a service that answers queries on a connection; pass them to [service.Run].
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
			session, _, _ := q.subjects.ParseQuery(subject) // an invalid subject is refused at once
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
		return nil, invalid("the request has %d bytes, the limit is %d", len(r.Data), maxRequest)
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
		return nil, fmt.Errorf("the answer has %d bytes, the limit is %d", len(payload), most)
	}
	return payload, nil
}

// failure is a [schemas.QueryError] that is returned to the client.
type failure struct{ schemas.QueryError }

// Error returns code and reason.
func (f *failure) Error() string { return f.QueryError.Error() }

// Answer returns the error in the form of NATS services, and as JSON.
func (f *failure) Answer() (code int, reason string, payload []byte) {
	payload, _ = schemas.Marshal(f.QueryError) // two strings can always be encoded
	return f.Code.HTTPCode(), f.QueryError.Error(), payload
}

func fail(code schemas.QueryCode, format string, args ...any) error {
	return &failure{schemas.QueryError{Code: code, Reason: fmt.Sprintf(format, args...)}}
}

func invalid(format string, args ...any) error { return fail(schemas.QueryInvalid, format, args...) }

// Busy is the error for queries beyond the service's limit.
func Busy() error { return fail(schemas.QueryBusy, "too many concurrent queries, retry") }

// refusal converts an error to one for the client. It logs internal errors, which are for the operator, and hides
// them from the client.
func (q *queries) refusal(ctx context.Context, subject string, err error) error {
	var known *failure
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, index.ErrNoSession):
		return fail(schemas.QueryNotFound, "no such session")
	case q.o.Damaged != nil && errors.Is(err, q.o.Damaged):
		return fail(schemas.QueryDamaged, "the session's log is damaged: %v", err)
	case ctx.Err() != nil:
		return fail(schemas.QueryUnavailable, "the log could not be read in time")
	}
	q.o.Logger.Warn("query not answered", "subject", subject, "err", err)
	return fail(schemas.QueryInternal, "the query could not be answered; the runner's log says why")
}

// decode validates and decodes a request; an empty one means {}.
func decode[T any](name string, data []byte) (request T, err error) {
	if len(bytes.TrimSpace(data)) == 0 {
		data = []byte("{}")
	}
	if err := schemas.ParseQueryRequest(name, data, &request); err != nil {
		return request, invalid("%v", err)
	}
	return request, nil
}
