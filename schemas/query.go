package schemas

import (
	"encoding/json"
	"fmt"
	"time"
)

// QueryKind is the last token of a query's subject.
type QueryKind string

// The queries. QuerySessions and QueryModels are not about one session ([Subjects.QueryAll]), QueryApprovals is about
// all sessions or one, the others are about one session ([Subjects.Query]). One of the runners answers each, from
// stored data.
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

// MaxQueryLimit is the largest limit of a query. A page has fewer items, and reports that there are more, if they would
// not fit into a message.
const MaxQueryLimit = 1000

// QueryCode is why a query failed. Codes are stable.
type QueryCode string

// The codes of a [QueryError].
const (
	QueryInvalid     QueryCode = "invalid"     // the request is malformed or has an impossible value
	QueryNotFound    QueryCode = "not_found"   // no such session, message or command
	QueryBusy        QueryCode = "busy"        // too many queries at once: retry
	QueryUnavailable QueryCode = "unavailable" // the stored data could not be read in time: retry
	QueryDamaged     QueryCode = "damaged"     // the session's log differs from what its writers stored
	QueryInternal    QueryCode = "internal"    // a fault of the runner
)

// QueryError is the answer to a query that failed. The headers Nats-Service-Error-Code and Nats-Service-Error carry the
// same for clients of NATS services.
type QueryError struct {
	Code   QueryCode `json:"code"`
	Reason string    `json:"reason"`
}

// Error returns code and reason.
func (e *QueryError) Error() string { return string(e.Code) + ": " + e.Reason }

// HTTPCode returns the value of the header Nats-Service-Error-Code for the code.
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

// PageQuery requests a page of a list. Cursor is Next of the page before, empty for the first page. Limit is at most
// [MaxQueryLimit]; 0 is 100.
type PageQuery struct {
	Limit  int    `json:"limit,omitempty"`
	Cursor string `json:"cursor,omitempty"`
}

// EventsQuery requests the events of a session after a sequence, in order. Limit is at most [MaxQueryLimit]; 0 is 100.
type EventsQuery struct {
	After uint64 `json:"after,omitempty"`
	Limit int    `json:"limit,omitempty"`
}

// EventsPage has events of a session in order. Seq is the sequence of the newest event in the log. If More is true, the
// client queries again after the last event of the page; if not, it continues from Seq.
type EventsPage struct {
	Session string         `json:"session"`
	Seq     uint64         `json:"seq"`
	Events  []QueriedEvent `json:"events"`
	More    bool           `json:"more,omitempty"`
}

// OutcomeQuery requests the outcome of a command.
type OutcomeQuery struct {
	CommandID string `json:"commandId"`
}

// Outcome is the newest event about a command: command_accepted, command_applied, command_rejected, command_superseded
// or command_withdrawn. Seq is the sequence of the newest event in the log.
type Outcome struct {
	Session string       `json:"session"`
	Seq     uint64       `json:"seq"`
	Event   QueriedEvent `json:"event"`
}

// QueriedEvent is an event as a CloudEvent in JSON. It has all attributes, also those that its commit leaves out. If
// the data does not fit into the answer, it is left out and DataSize is its size in bytes; the log has it.
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

// Event returns the event. An error wraps [ErrAttribute], or [ErrElsewhere] if the answer does not have the data, or is
// an [UnknownTypeError].
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

// ValidateQuery validates a request or an answer, such as a "sessions_query" or a "sessions_page", by its schema. It
// returns nil or a [*ValidationError].
func ValidateQuery(name string, payload []byte) error {
	return validate("query "+name, SchemaName{"queries", name}, payload)
}

// ParseQueryRequest validates and decodes a request. The error is a [*ValidationError].
func ParseQueryRequest(name string, payload []byte, request any) error {
	if err := ValidateQuery(name, payload); err != nil {
		return err
	}
	if err := json.Unmarshal(payload, request); err != nil {
		return &ValidationError{What: "query " + name, Problems: []string{decodeProblem(err)}}
	}
	return nil
}
