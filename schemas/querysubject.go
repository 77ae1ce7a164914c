package schemas

import (
	"fmt"
	"strings"
)

// BucketSessions has an entry for each session: the index that lists of sessions are answered from. It is private to
// runners, which make it anew from the logs where it is lost.
const BucketSessions = "agent_sessions"

// QueueQueries is the queue group of the runners that answer queries: one of them answers each.
const QueueQueries = "queries"

// Headers of a command whose sender wants to get its outcome. Its own reply subject is the stream's, which
// answers with an acknowledgement and does not keep it.
const (
	HeaderReply   = "Loopbus-Reply"    // ReplyOutcome
	HeaderReplyTo = "Loopbus-Reply-To" // the inbox that the outcome goes to

	ReplyOutcome = "outcome"

	// ContentEvent is the media type of the answer: a [QueriedEvent].
	ContentEvent = "application/cloudevents+json"
)

// Query is where one session is asked about: agent.query.<session>.<kind>.
func (s Subjects) Query(session string, kind QueryKind) string {
	return s.Prefix() + ".query." + session + "." + string(kind)
}

// QueryAll is where all sessions are asked about: agent.query.<kind>.
func (s Subjects) QueryAll(kind QueryKind) string { return s.Prefix() + ".query." + string(kind) }

// ParseQuery returns session and kind of a query's subject; the session is empty where all are asked about. The kind
// need not be known.
func (s Subjects) ParseQuery(subject string) (session string, kind QueryKind, err error) {
	rest, ok := strings.CutPrefix(subject, s.Prefix()+".query.")
	if !ok {
		return "", "", fmt.Errorf("%w: %.100q is not below %s.query", ErrSubject, subject, s.Prefix())
	}
	session, last, found := strings.Cut(rest, ".")
	if !found {
		return "", QueryKind(rest), nil
	}
	return session, QueryKind(last), CheckSession(session)
}
