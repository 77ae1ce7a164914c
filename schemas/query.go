package schemas

import (
	"encoding/json"
	"fmt"
	"time"
)

// QueryKind is the last token of a query's subject.
type QueryKind string

// The queries. Sessions is asked of all sessions ([Subjects.QueryAll]), approvals of all of them or of one, the others
// of one session ([Subjects.Query]). Each is answered by one of the runners, from what is stored.
const (
	QuerySessions  QueryKind = "sessions"  // SessionsQuery -> SessionsPage
	QueryApprovals QueryKind = "approvals" // PageQuery -> ApprovalsPage
	QueryModels    QueryKind = "models"    // PageQuery -> ModelsPage
	QueryState     QueryKind = "state"     // nothing -> SessionState
	QueryMessages  QueryKind = "messages"  // MessagesQuery -> MessagesPage
	QueryEvents    QueryKind = "events"    // EventsQuery -> EventsPage
	QueryTree      QueryKind = "tree"      // PageQuery -> SessionTree
	QueryStats     QueryKind = "stats"     // nothing -> SessionStats
	QueryTools     QueryKind = "tools"     // PageQuery -> ToolsPage
	QueryOutcome   QueryKind = "outcome"   // OutcomeQuery -> Outcome
)

// MaxQueryLimit is the most that a page may be asked to hold. A page holds less where the answer would not fit a
// message, and says so.
const MaxQueryLimit = 1000

// QueryCode says why a query has no answer. Codes are stable.
type QueryCode string

// The codes of [QueryError].
const (
	QueryInvalid     QueryCode = "invalid"     // the request is malformed, or names what cannot be
	QueryNotFound    QueryCode = "not_found"   // no such session, message or command
	QueryBusy        QueryCode = "busy"        // too many queries at once: ask again
	QueryUnavailable QueryCode = "unavailable" // what is stored could not be read in time: ask again
	QueryDamaged     QueryCode = "damaged"     // the session's log is not what its writers wrote
	QueryInternal    QueryCode = "internal"    // a fault of the runner
)

// QueryError is the answer to a query that cannot be answered. The headers Nats-Service-Error-Code and
// Nats-Service-Error say the same to clients of NATS services.
type QueryError struct {
	Code   QueryCode `json:"code"`
	Reason string    `json:"reason"`
}

// Error is code and reason.
func (e *QueryError) Error() string { return string(e.Code) + ": " + e.Reason }

// HTTPCode is what the header Nats-Service-Error-Code says for the code.
func (c QueryCode) HTTPCode() int {
	switch c {
	case QueryInvalid:
		return 400
	case QueryNotFound:
		return 404
	case QueryBusy:
		return 429
	case QueryUnavailable:
		return 503
	default:
		return 500
	}
}

// PageQuery asks for a page of a list. Cursor is Next of the page before, empty for the first page. Limit is at most
// [MaxQueryLimit]; 0 is 100.
type PageQuery struct {
	Limit  int    `json:"limit,omitempty"`
	Cursor string `json:"cursor,omitempty"`
}

// EventsQuery asks for the events of a session after a sequence, in order. Limit is at most [MaxQueryLimit]; 0 is 100.
type EventsQuery struct {
	After uint64 `json:"after,omitempty"`
	Limit int    `json:"limit,omitempty"`
}

// EventsPage has events of a session in order. Seq is the sequence of the newest event that the log had. More says that
// events follow: ask again after the last of these. Where More is false the client goes on from Seq.
type EventsPage struct {
	Session string         `json:"session"`
	Seq     uint64         `json:"seq"`
	Events  []QueriedEvent `json:"events"`
	More    bool           `json:"more,omitempty"`
}

// OutcomeQuery asks what has become of a command.
type OutcomeQuery struct {
	CommandID string `json:"commandId"`
}

// Outcome is the newest event that says what has become of a command: command_accepted, command_applied,
// command_rejected, command_superseded or command_withdrawn. Seq is the sequence of the newest event that the log had.
type Outcome struct {
	Session string       `json:"session"`
	Seq     uint64       `json:"seq"`
	Event   QueriedEvent `json:"event"`
}

// QueriedEvent is an event as a CloudEvent in JSON. All its attributes are there, whatever its commit leaves out. Where
// its data would not fit the answer, DataSize is the size of the data in bytes, and the log has them.
type QueriedEvent struct {
	SpecVersion   string          `json:"specversion"`
	ID            string          `json:"id"`
	Source        string          `json:"source"`
	Type          string          `json:"type"`
	Time          time.Time       `json:"time"`
	RunID         string          `json:"runid,omitempty"`
	TurnID        string          `json:"turnid,omitempty"`
	CorrelationID string          `json:"correlationid,omitempty"`
	CausationID   string          `json:"causationid,omitempty"`
	TraceParent   string          `json:"traceparent,omitempty"`
	DataSize      int             `json:"datasize,omitempty"`
	Data          json.RawMessage `json:"data,omitempty"`
}

// NewQueriedEvent returns an event as a CloudEvent. The error is that of data that cannot be encoded.
func NewQueriedEvent(e Event) (QueriedEvent, error) {
	data, err := AppendData(nil, e.Data)
	if err != nil {
		return QueriedEvent{}, fmt.Errorf("schemas: encode event %s: %w", e.ID(), err)
	}
	return QueriedEvent{
		SpecVersion: SpecVersion, ID: e.ID(), Source: e.Source, Type: CloudEventType(e.Type()), Time: e.Time.UTC(),
		RunID: e.RunID, TurnID: e.TurnID, CorrelationID: e.CorrelationID, CausationID: e.CausationID,
		TraceParent: e.TraceParent, Data: data,
	}, nil
}

// Event returns the event. An error wraps [ErrAttribute] or [ErrElsewhere], the latter where the data did not fit the
// answer, or is an [UnknownTypeError].
func (q QueriedEvent) Event() (Event, error) {
	e := Event{
		Source: q.Source, Time: q.Time, RunID: q.RunID, TurnID: q.TurnID, CorrelationID: q.CorrelationID,
		CausationID: q.CausationID, TraceParent: q.TraceParent,
	}
	name, err := ParseCloudEventType(q.Type)
	if err == nil {
		e.Session, e.Seq, err = splitID(q.ID)
	}
	switch {
	case err != nil:
	case q.Data == nil:
		err = ErrElsewhere
	default:
		e.Data, err = DecodeEventData(EventType(name), q.Data)
	}
	if err != nil {
		return Event{}, fmt.Errorf("schemas: event %.100q of an answer: %w", q.ID, err)
	}
	return e, nil
}

// ValidateQuery holds a request or an answer, such as a "sessions_query" or a "sessions_page", against its schema. It
// returns nil or a [*ValidationError].
func ValidateQuery(name string, payload []byte) error {
	return validate("query "+name, SchemaName{"queries", name}, payload)
}

// ParseQueryRequest validates a request and reads it. The error is a [*ValidationError].
func ParseQueryRequest(name string, payload []byte, request any) error {
	if err := ValidateQuery(name, payload); err != nil {
		return err
	}
	if err := json.Unmarshal(payload, request); err != nil {
		return &ValidationError{What: "query " + name, Problems: []string{decodeProblem(err)}}
	}
	return nil
}
