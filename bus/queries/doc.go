// Package queries answers questions that a client should not have to fold logs for: lists of sessions, and for one
// session its state, messages, events, family, usage, tools, waiting approvals, and the outcome of a command
// (docs/queries.md).
//
// Queries about all sessions are answered from the index (package index), queries about one session from its log.
// Each answer names the sequence it stands for. The subject of a query contains the session, so NATS permissions
// decide who may query it. The answer contains nothing of other sessions, except for the lists of all sessions, which
// have their own subjects.
//
// Memory and time are bounded: an answer fits one message, lists are paged, few logs are read at once, and an answer
// takes at most ten seconds.
package queries
