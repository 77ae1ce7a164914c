package schemas_test

import (
	"slices"

	"github.com/loopbus/loopbus/schemas"
)

// queryChannels are the subjects of queries. Nothing of them is stored.
func queryChannels() []apiChannel {
	s := schemas.Subjects{}
	carries := func(names ...string) func(apiMessage) bool {
		return func(m apiMessage) bool { return m.area == "queries" && slices.Contains(names, m.schema.Name) }
	}
	return []apiChannel{
		{"sessionsQueries", s.QueryAll(schemas.QuerySessions), "Queries for all sessions",
			"One of the runners answers (queue group " + schemas.QueueQueries + "), from the index that all of them keep.",
			nil, carries("sessions_query"), "receive", "receiveSessionsQuery", "Take a query for all sessions."},
		{"approvalsQueries", s.QueryAll(schemas.QueryApprovals), "Queries for the approvals of all sessions",
			"One of the runners answers, from the index that all of them keep.",
			nil, carries("page_query"), "receive", "receiveApprovalsQuery", "Take a query for what waits for approval."},
		{"modelsQueries", s.QueryAll(schemas.QueryModels), "Queries for the models there are",
			"One of the runners answers, from its catalogue.",
			nil, carries("page_query"), "receive", "receiveModelsQuery", "Take a query for the models there are."},
		{"sessionQueries", s.Query("{session}", "{query}"), "Queries for one session",
			"One of the runners answers, from the session's log. The payload is empty or an object.",
			[]string{"session", "query"}, carries("page_query", "messages_query", "events_query", "outcome_query"),
			"receive", "receiveSessionQuery", "Take a query for one session."},
		{"queryAnswers", "", "Answers to queries",
			"The reply subject of the query, which has to be an inbox. A query without an answer within ten seconds may be " +
				"sent again. The headers Nats-Service-Error-Code and Nats-Service-Error are set where it is a query_error.",
			nil, carries("sessions_page", "approvals_page", "session_state", "messages_page", "events_page", "session_tree",
				"session_stats", "tools_page", "models_page", "outcome", "query_error"),
			"send", "answerQuery", "Answer a query."},
	}
}

// queryParameter describes the last token of a query's subject.
func queryParameter() object {
	return obj("description", "The query.", "enum", []schemas.QueryKind{schemas.QueryState, schemas.QueryMessages,
		schemas.QueryEvents, schemas.QueryTree, schemas.QueryStats, schemas.QueryTools, schemas.QueryApprovals,
		schemas.QueryOutcome})
}
