package schemas

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
)

// Branch makes its session, which must be new, a copy of another one: the transcript up to the event with the sequence
// Seq, 0 for the newest, and the settings. A last reply whose tool calls have no results yet is left out. If EntryID is
// set, the copy is the path to that entry as Position says, and Seq is ignored.
type Branch struct {
	Session  string         `json:"session"`
	Seq      uint64         `json:"seq,omitempty"`
	EntryID  string         `json:"entryId,omitempty"`
	Position BranchPosition `json:"position,omitempty"`
}

// BranchPosition is the end of a copy relative to an entry.
type BranchPosition string

// The positions; the zero value counts as [BranchAt].
const (
	BranchAt     BranchPosition = "at"     // with the entry
	BranchBefore BranchPosition = "before" // before the entry, a user's message, whose text is in the outcome
)

// SessionBranched is the event of a session that began as a copy of another one, up to that one's event Seq: its
// transcript, its settings as the commands that make them, and the labels of the messages. EntryID and Position are
// those of the command. Text is that of the message before which the copy ends.
type SessionBranched struct {
	Session  string         `json:"session"`
	Seq      uint64         `json:"seq"`
	EntryID  string         `json:"entryId,omitempty"`
	Position BranchPosition `json:"position,omitempty"`
	Messages Messages       `json:"messages"`
	Settings []Setting      `json:"settings,omitempty"`
	Labels   []CopiedLabel  `json:"labels,omitempty"`
	Text     string         `json:"text,omitempty"`
}

// CopiedLabel is a label of a copied message. Message is the index of the message, from 0.
type CopiedLabel struct {
	Message int    `json:"message"`
	Label   string `json:"label"`
}

// Setting is a command that changes a setting of later runs, such as set_model, and its payload.
type Setting struct {
	Kind CommandKind     `json:"kind"`
	Data json.RawMessage `json:"data"`
}

// CommandKind returns "branch".
func (*Branch) CommandKind() CommandKind { return CommandBranch }

// EventType returns "session_branched".
func (*SessionBranched) EventType() EventType { return EventSessionBranched }

// maxSession is the longest id of a session.
const maxSession = 64

// CallSession returns the id of a session that a call of a session creates: a sub-agent or a copy. key is
// [ToolRequest.IdempotencyKey]. It contains the nonce, so nobody can guess the id and begin that session beforehand;
// the id does not reveal the nonce. No user and no model can choose the id: a model that could would prepare the
// transcript of a session that somebody else is going to use.
func CallSession(session string, call CallKey, key string) string {
	sum := sha256.Sum256([]byte(key))
	suffix := fmt.Sprintf("-%s-%x", call, sum[:6])
	return session[:min(len(session), maxSession-len(suffix))] + suffix
}
