package schemas

import "encoding/json"

// Branch makes its session, which must not have begun, a copy of another one: its transcript up to the event with the
// sequence Seq, 0 for the newest, and its settings. A reply at the end whose tool calls have no results yet is left
// out.
type Branch struct {
	Session string `json:"session"`
	Seq     uint64 `json:"seq,omitempty"`
}

// SessionBranched says that the session began as a copy of another one, as far as that one's event Seq: its transcript,
// and its settings as the commands that make them.
type SessionBranched struct {
	Session  string    `json:"session"`
	Seq      uint64    `json:"seq"`
	Messages Messages  `json:"messages"`
	Settings []Setting `json:"settings,omitempty"`
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
