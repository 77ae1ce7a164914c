package schemas

import (
	"fmt"
	"strings"
)

// BucketSessions has an entry for each session: the index from which lists of sessions are answered. It is private to
// runners, which rebuild it from the logs if it is lost.
const BucketSessions = "agent_sessions"

// QueueQueries is the queue group of the runners that answer queries. One of them answers each query.
const QueueQueries = "queries"

// Headers of a command whose sender requests its outcome. The NATS reply subject cannot be used for that: the stream
// sends its acknowledgement there and does not store the subject.
const (
	HeaderReply   = "Loopbus-Reply"    // ReplyOutcome
	HeaderReplyTo = "Loopbus-Reply-To" // inbox for the outcome

	ReplyOutcome = "outcome"

	// ContentEvent is the media type of the answer: a [QueriedEvent].
	ContentEvent = "application/cloudevents+json"
)

// Query returns the subject of queries about one session: agent.query.<session>.<kind>.
func (s Subjects) Query(session string, kind QueryKind) string {
	return s.Prefix() + ".query." + session + "." + string(kind)
}

// QueryAll returns the subject of queries about all sessions: agent.query.<kind>.
func (s Subjects) QueryAll(kind QueryKind) string { return s.Prefix() + ".query." + string(kind) }

// ParseQuery returns session and kind of a query's subject; the session is empty for a query about all sessions. The
// kind may be an unknown one.
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
