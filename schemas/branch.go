package schemas

import "encoding/json"

// Branch makes its session, which must not have begun, a copy of another one: its transcript up to the event with the
// sequence Seq, 0 for the newest, and its settings. A reply at the end whose tool calls have no results yet is left
// out. With EntryID it is the path to that entry, as Position says, and Seq is ignored.
type Branch struct {
	Session  string         `json:"session"`
	Seq      uint64         `json:"seq,omitempty"`
	EntryID  string         `json:"entryId,omitempty"`
	Position BranchPosition `json:"position,omitempty"`
}

// BranchPosition says where a copy ends.
type BranchPosition string

// The positions; the zero value counts as [BranchAt].
const (
	BranchAt     BranchPosition = "at"     // with the entry
	BranchBefore BranchPosition = "before" // before the entry, a user's message, whose text is in the outcome
)

// SessionBranched says that the session began as a copy of another one, as far as that one's event Seq: its transcript,
// its settings as the commands that make them, and the labels on the messages. EntryID and Position are the command's.
// Text is that of the message before which the copy ends.
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

// CopiedLabel is a label on one of the messages of a copy, by its place from 0.
type CopiedLabel struct {
	Message int    `json:"message"`
	Label   string `json:"label"`
}

// Setting is a command that chooses something for the runs to come, such as set_model, and its payload.
type Setting struct {
	Kind CommandKind     `json:"kind"`
	Data json.RawMessage `json:"data"`
}

// CommandKind returns "branch".
func (*Branch) CommandKind() CommandKind { return CommandBranch }

// EventType returns "session_branched".
func (*SessionBranched) EventType() EventType { return EventSessionBranched }
