package schemas

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// DefaultPrefix is the first token of every subject unless a deployment chooses another.
const DefaultPrefix = "agent"

// MetadataInbox is the member of the metadata of [StreamCommands] with the name that ids of commands begin with.
const MetadataInbox = "loopbus-inbox"

// TimedInbox begins the name of an inbox whose ids of commands end with the time when the message was stored. An inbox
// that an earlier version has named keeps its ids.
const TimedInbox = "t-"

// Names of the streams and buckets.
const (
	StreamCommands = "AGENT_CMD"
	StreamTimers   = "AGENT_TIMER"
	StreamEvents   = "AGENT_EVT"
	StreamUpdates  = "AGENT_UPD"
	StreamTools    = "AGENT_TOOL"
	StreamDead     = "AGENT_DEAD"
	StreamSpent    = "AGENT_SPENT"
	StreamAttempts = "AGENT_ATTEMPT"

	BucketTools     = "agent_tools"
	BucketRunners   = "agent_runners"
	BucketSnapshots = "agent_snapshots"
	BucketProfiles  = "agent_profiles"
	BucketBlobs     = "agent_blobs"
	BucketDeletions = "agent_deletions"
	BucketInputs    = "agent_inputs"
)

// Inputs that are too large for a command are objects of [BucketInputs], named by their SHA-256 in hexadecimal. The
// CloudEvent of the command then has the attribute dataref, InputScheme and the name, in place of data.
const (
	InputScheme   = "nats://" + BucketInputs + "/"
	MaxInputBytes = 8 << 20
)

// ErrSubject is wrapped by every error about a subject or a token of one.
var ErrSubject = errors.New("illegal subject")

var (
	prefixRE = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}(\.[A-Za-z0-9_-]{1,64}){0,7}$`)
	inboxRE  = regexp.MustCompile(`^_INBOX(_[A-Za-z0-9_-]+)?\.`)
	replyRE  = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}(\.[A-Za-z0-9_-]{1,64}){1,15}$`)
)

// CheckSession returns nil if id is a legal session id: a single subject token of at most 64 characters of A-Z a-z 0-9
// _ and -. Otherwise it returns an error wrapping [ErrSubject].
func CheckSession(id string) error { return checkToken("session id", id) }

// CheckToken is [CheckSession] for other tokens; the error names the token with what.
func CheckToken(what, token string) error { return checkToken(what, token) }

// isToken is called several times for every message: a regular expression would take ten times as long.
func isToken(s string) bool {
	const longest = 64
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', isDigit(c), c == '_', c == '-':
		default:
			return false
		}
	}
	return s != "" && len(s) <= longest
}

func checkToken(what, token string) error {
	if isToken(token) {
		return nil
	}
	if len(token) > 80 {
		token = token[:80] + "..."
	}
	return fmt.Errorf("%w: %s %q is not 1 to 64 characters of A-Z a-z 0-9 _ -", ErrSubject, what, token)
}

// Subjects builds and parses subjects below one prefix. The zero value uses [DefaultPrefix]. Building does not check
// tokens: a caller checks those from outside with [CheckSession] or [CheckToken] first. Parsing refuses what building
// from legal tokens cannot produce, with an error wrapping [ErrSubject].
type Subjects struct{ prefix string }

// NewSubjects returns the grammar below prefix; an empty prefix is [DefaultPrefix]. The prefix may have up to eight
// tokens.
func NewSubjects(prefix string) (Subjects, error) {
	if prefix == "" {
		return Subjects{}, nil
	}
	if !prefixRE.MatchString(prefix) {
		return Subjects{}, fmt.Errorf("%w: prefix %q is not one to eight tokens of A-Z a-z 0-9 _ -", ErrSubject, prefix)
	}
	return Subjects{prefix}, nil
}

// Prefix returns the prefix in use.
func (s Subjects) Prefix() string {
	return cmp.Or(s.prefix, DefaultPrefix)
}

// Command returns the subject at which commands of a kind for a session are published: agent.cmd.<session>.<kind>.
func (s Subjects) Command(session string, kind CommandKind) string {
	return s.Prefix() + ".cmd." + session + "." + string(kind)
}

// Event returns the subject of a session's log: agent.evt.<session>.
func (s Subjects) Event(session string) string { return s.Prefix() + ".evt." + session }

// LiveEvent returns the subject at which the server republishes a session's events: agent.live.<session>.event.
func (s Subjects) LiveEvent(session string) string { return s.Prefix() + ".live." + session + ".event" }

// LiveUpdate returns the subject at which a session's updates are published: agent.live.<session>.update.
func (s Subjects) LiveUpdate(session string) string {
	return s.Prefix() + ".live." + session + ".update"
}

// Tool returns the subject at which a call waits for a worker: agent.tool.<queue>.<session>.<call>. The queue is the
// name of a [ToolQueue], which is the tool's own if it has neither version nor workspace. The call is a [CallKey], not
// the model's id.
func (s Subjects) Tool(queue, session, call string) string {
	return s.Prefix() + ".tool." + queue + "." + session + "." + call
}

// Cancel returns the subject at which a running call is cancelled: agent.cancel.<session>.<call>.
func (s Subjects) Cancel(session, call string) string {
	return s.Prefix() + ".cancel." + session + "." + call
}

// Reply returns the subject at which a caller without a session waits for the answer to a call:
// agent.reply.<caller>.<nonce>. Who knows the nonce may answer.
func (s Subjects) Reply(caller, nonce string) string {
	return s.Prefix() + ".reply." + caller + "." + nonce
}

// IsReply reports whether Reply can return the subject.
func (s Subjects) IsReply(subject string) bool {
	return replyRE.MatchString(subject) && strings.HasPrefix(subject, s.Prefix()+".reply.")
}

// IsInbox reports whether a subject is one at which NATS clients receive replies: _INBOX.…, or _INBOX_<user>.… if each
// user has inboxes of its own.
func IsInbox(subject string) bool {
	return replyRE.MatchString(subject) && inboxRE.MatchString(subject)
}

// MayAnswer reports whether a request may be answered at the reply subject that it was delivered with: an inbox
// ([IsInbox]), or the subject _R_.… that a NATS server puts in place of the requester's where the request has come from
// another account, by a service import. A server refuses clients that use such a subject as their reply subject. No
// server checks a subject that a header or a payload names: use IsInbox for those.
func MayAnswer(reply string) bool {
	return replyRE.MatchString(reply) && (inboxRE.MatchString(reply) || strings.HasPrefix(reply, "_R_."))
}

// CheckReply returns nil if a worker may send an answer to the subject that a request names: one below agent.reply, or
// an inbox of a NATS client, without wildcards. Otherwise it returns an error wrapping [ErrSubject]: a client that may
// request a call must not make a worker publish where the client may not, such as into a session's inbox.
func (s Subjects) CheckReply(subject string) error {
	if s.IsReply(subject) || IsInbox(subject) {
		return nil
	}
	return fmt.Errorf("%w: %.100q is neither below %s.reply nor an inbox", ErrSubject, subject, s.Prefix())
}

// Due returns the subject of a timer that is due, on its way to the session's inbox: agent.due.<session>.<name>.
func (s Subjects) Due(session, name string) string {
	return s.Prefix() + ".due." + session + "." + name
}

// Schedule returns the subject at which a timer of a session waits until it is due: agent.sched.<session>.<name>.
func (s Subjects) Schedule(session, name string) string {
	return s.Prefix() + ".sched." + session + "." + name
}

// ModelRequest returns the subject of model calls, each served by one server of the queue group: agent.model.request.
func (s Subjects) ModelRequest() string { return s.Prefix() + ".model.request" }

// ModelCall returns the subject at which the server of a model call receives control messages during the call:
// agent.model.call.<call>.
func (s Subjects) ModelCall(call string) string { return s.Prefix() + ".model.call." + call }

// Key returns the subject at which a key service provides a provider's key: agent.key.<provider>.
func (s Subjects) Key(provider string) string { return s.Prefix() + ".key." + provider }

// Hook returns the subject at which the service of a hook receives requests (see [HookRef]).
func (s Subjects) Hook(r HookRef) string {
	subject := s.Prefix() + ".hook." + string(r.Hook)
	if r.Service != "" {
		subject += "." + r.Service
	}
	return subject
}

// Spent returns the subject of the counter of a profile's usage of a unit in a period ([BudgetPeriod.Name]):
// agent.spent.<profile>.<period>.<unit>.
func (s Subjects) Spent(profile, period, unit string) string {
	return s.Prefix() + ".spent." + profile + "." + period + "." + unit
}

// Heartbeat returns the subject of the runners' heartbeats: agent.runner.heartbeat.
func (s Subjects) Heartbeat() string { return s.Prefix() + ".runner.heartbeat" }

// Probe returns the subject by which runners test whether a runner still has a connection: agent.runner.probe.<runner>.
func (s Subjects) Probe(runner string) string { return s.Prefix() + ".runner.probe." + runner }

// Attempt returns the subject of the counter of runners that were lost while they worked on a message of the inbox:
// agent.attempt.<sequence>.
func (s Subjects) Attempt(seq uint64) string { return fmt.Sprintf("%s.attempt.%d", s.Prefix(), seq) }

// Dead returns the subject of dead letters: agent.dead.<stream>.<session>. For a message without a legal session id the
// session token is "_".
func (s Subjects) Dead(stream, session string) string {
	return s.Prefix() + ".dead." + stream + "." + session
}

// ParseCommand returns session and kind of a command's subject, as published or as stored with its partition
// (agent.cmd.<partition>.<session>.<kind>; of a timer that was due: agent.cmd.<partition>.<session>.timer.<name>). The
// kind need not be known; an illegal session id gives an error wrapping [ErrSubject] together with the kind.
func (s Subjects) ParseCommand(subject string) (session string, kind CommandKind, err error) {
	rest, ok := strings.CutPrefix(subject, s.Prefix()+".cmd.")
	if !ok {
		return "", "", fmt.Errorf("%w: %q is not below %s.cmd", ErrSubject, subject, s.Prefix())
	}
	tokens := strings.Split(rest, ".")
	switch {
	case len(tokens) == 3:
		tokens = tokens[1:]
	case len(tokens) == 4 && tokens[2] == string(CommandTimer):
		tokens = tokens[1:3]
	}
	if len(tokens) != 2 {
		return "", "", fmt.Errorf("%w: %q is not %s.cmd.<session>.<kind>", ErrSubject, subject, s.Prefix())
	}
	if err := CheckSession(tokens[0]); err != nil {
		return "", CommandKind(tokens[1]), err
	}
	return tokens[0], CommandKind(tokens[1]), nil
}

// ParseEvent returns the session of a log subject.
func (s Subjects) ParseEvent(subject string) (session string, err error) {
	session, ok := strings.CutPrefix(subject, s.Prefix()+".evt.")
	if !ok {
		return "", fmt.Errorf("%w: %q is not below %s.evt", ErrSubject, subject, s.Prefix())
	}
	return session, CheckSession(session)
}

// ParseLive returns the session of a live subject, and whether it is that of updates and not of events.
func (s Subjects) ParseLive(subject string) (session string, update bool, err error) {
	tokens, err := s.tokens(subject, "live", "<session>.<event or update>", 2)
	if err != nil {
		return "", false, err
	}
	if tokens[1] != "event" && tokens[1] != "update" {
		return "", false, fmt.Errorf("%w: %.100q ends with neither event nor update", ErrSubject, subject)
	}
	return tokens[0], tokens[1] == "update", CheckSession(tokens[0])
}

// ParseTool returns queue, session and call of a tool call's subject.
func (s Subjects) ParseTool(subject string) (queue ToolQueue, session, call string, err error) {
	tokens, err := s.tokens(subject, "tool", "<queue>.<session>.<call>", 3)
	if err != nil {
		return ToolQueue{}, "", "", err
	}
	queue, err = ParseToolQueue(tokens[0])
	return queue, tokens[1], tokens[2], errors.Join(err, CheckSession(tokens[1]), CheckToken("call", tokens[2]))
}

// ParseCancel returns session and call of a cancel subject.
func (s Subjects) ParseCancel(subject string) (session, call string, err error) {
	tokens, err := s.tokens(subject, "cancel", "<session>.<call>", 2)
	if err != nil {
		return "", "", err
	}
	return tokens[0], tokens[1], errors.Join(CheckSession(tokens[0]), CheckToken("call", tokens[1]))
}

// ParseDead returns stream and session of a dead letter's subject.
func (s Subjects) ParseDead(subject string) (stream, session string, err error) {
	tokens, err := s.tokens(subject, "dead", "<stream>.<session>", 2)
	if err != nil {
		return "", "", err
	}
	return tokens[0], tokens[1], errors.Join(CheckToken("stream", tokens[0]), CheckSession(tokens[1]))
}

// tokens returns the n tokens of a subject below prefix.area; form describes them.
func (s Subjects) tokens(subject, area, form string, n int) ([]string, error) {
	rest, ok := strings.CutPrefix(subject, s.Prefix()+"."+area+".")
	tokens := strings.Split(rest, ".")
	if !ok || len(tokens) != n {
		return nil, fmt.Errorf("%w: %.100q is not %s.%s.%s", ErrSubject, subject, s.Prefix(), area, form)
	}
	return tokens, nil
}
