// Package queries answers what a client should not have to fold itself: lists of sessions, and of a session its state,
// messages, events, family, use, tools, approvals that wait, and what became of a command (docs/queries.md).
//
// Queries about all sessions are answered from the index (package index), queries about one from its log. Each
// answer names the sequence it stands for. Which session is asked about stands in the subject, so that NATS permissions
// decide who may ask; an answer has nothing of other sessions, but for the lists of all, which have subjects of their
// own.
//
// Memory and time are bounded: an answer fits a message, lists come in pages, few logs are read at once, and an answer
// takes ten seconds at most.
package queries
