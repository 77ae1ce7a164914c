package schemas_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/schemas"
)

// decodeQuery reads an example of a query or of an answer through its Go type.
func decodeQuery(name string, raw []byte) (any, error) {
	into := map[string]any{
		"page_query": new(schemas.PageQuery), "sessions_query": new(schemas.SessionsQuery),
		"messages_query": new(schemas.MessagesQuery), "events_query": new(schemas.EventsQuery),
		"outcome_query": new(schemas.OutcomeQuery), "sessions_page": new(schemas.SessionsPage),
		"approvals_page": new(schemas.ApprovalsPage), "session_tree": new(schemas.SessionTree),
		"session_state": new(schemas.SessionState), "messages_page": new(schemas.MessagesPage),
		"events_page": new(schemas.EventsPage), "outcome": new(schemas.Outcome),
		"session_stats": new(schemas.SessionStats), "tools_page": new(schemas.ToolsPage),
		"models_page": new(schemas.ModelsPage),
		"query_error": new(schemas.QueryError),
	}[name]
	return into, json.Unmarshal(raw, into)
}

func TestQuerySubjects(t *testing.T) {
	t.Parallel()
	s, err := schemas.NewSubjects("tenant.a")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		subject, session string
		kind             schemas.QueryKind
	}{
		{s.QueryAll(schemas.QuerySessions), "", schemas.QuerySessions},
		{s.Query("s1", schemas.QueryState), "s1", schemas.QueryState},
		{s.Query("sessions", schemas.QueryTree), "sessions", schemas.QueryTree},
	} {
		session, kind, err := s.ParseQuery(c.subject)
		if err != nil || session != c.session || kind != c.kind {
			t.Errorf("%s is of %q %q, %v", c.subject, session, kind, err)
		}
	}
	for _, subject := range []string{"agent.query.sessions", "tenant.a.query..state", "tenant.a.query.a b.state"} {
		if _, _, err := s.ParseQuery(subject); !errors.Is(err, schemas.ErrSubject) {
			t.Errorf("%s: %v", subject, err)
		}
	}
}

// An event that was queried is the event of the log, with all its attributes.
func TestQueriedEventsAreTheEventsOfTheLog(t *testing.T) {
	t.Parallel()
	want := schemas.Event{
		Session: "s1", Seq: 12, Time: time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC), Source: "/loopbus/runner/r1",
		RunID: "r2", TurnID: "t3", CorrelationID: "p1", CausationID: "p1", TraceParent: "00-0-0-01",
		Data: &schemas.CommandApplied{CommandID: "p1", Kind: schemas.CommandPrompt, MessageIDs: []string{"m4"}},
	}
	q, err := schemas.NewQueriedEvent(want)
	if err != nil {
		t.Fatal(err)
	}
	var read schemas.QueriedEvent
	if err := json.Unmarshal(marshal(t, q), &read); err != nil {
		t.Fatal(err)
	}
	got, err := read.Event()
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
	read.Data, read.DataSize = nil, 2<<20
	if _, err := read.Event(); !errors.Is(err, schemas.ErrElsewhere) {
		t.Errorf("without its data: %v", err)
	}
	read.ID = "s1"
	if _, err := read.Event(); err == nil {
		t.Error("an event without a sequence was read")
	}
}
