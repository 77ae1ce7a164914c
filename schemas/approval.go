package schemas

import "encoding/json"

// ApprovalPolicy says which tools need somebody's agreement, and how long to wait for it. A name of "*" is every tool.
// TimeoutMs is in milliseconds from approval_requested; 0 waits for ever.
type ApprovalPolicy struct {
	Tools     []string `json:"tools,omitempty"`
	TimeoutMs int64    `json:"timeoutMs,omitempty"`
}

// Asks reports whether calls of the tool need an approval.
func (p ApprovalPolicy) Asks(tool string) bool {
	for _, name := range p.Tools {
		if name == tool || name == "*" {
			return true
		}
	}
	return false
}

// ApprovalRequested says that a call waits until somebody agrees to it, with an approve or deny command that names
// Call. Args are the arguments that it would be executed with. By is who asks for the approval. TimeoutMs is how long
// it waits, from the time of this event; 0 is for ever.
type ApprovalRequested struct {
	Call       CallKey         `json:"call"`
	ToolCallID string          `json:"toolCallId"`
	ToolName   string          `json:"toolName"`
	Args       json.RawMessage `json:"args"`
	Reason     string          `json:"reason,omitempty"`
	By         string          `json:"by,omitempty"`
	TimeoutMs  int64           `json:"timeoutMs,omitempty"`
}

// ApprovalResolved is the one answer to an [ApprovalRequested]: the first that came, or that of time. By is who
// decided. Args, where there are any, are what the call is executed with in place of the arguments that were asked
// about: By has changed them, and they fit the tool's schema.
type ApprovalResolved struct {
	Call       CallKey         `json:"call"`
	ToolCallID string          `json:"toolCallId"`
	Approved   bool            `json:"approved"`
	By         string          `json:"by,omitempty"`
	Reason     string          `json:"reason,omitempty"`
	Args       json.RawMessage `json:"args,omitempty"`
}

// ApprovalAnswer is what an approve or deny says, and all it may say: a message that is no answer must not pass for
// one. Call is the call it is about. By is who decides, for the log; without it, that is the command's source.
type ApprovalAnswer struct {
	Call   CallKey `json:"call"`
	By     string  `json:"by,omitempty"`
	Reason string  `json:"reason,omitempty"`
}

// Approve lets a call that waits for approval be executed. Args, a JSON object, are all of the arguments to execute it
// with, in place of those that were asked about; without them it is executed with these. Arguments that do not fit the
// tool's schema are refused with [RejectInvalidArgs], and the call waits on.
type Approve struct {
	ApprovalAnswer
	Args json.RawMessage `json:"args,omitempty"`
}

// Deny has a call that waits for approval answered with an error that says the reason.
type Deny struct{ ApprovalAnswer }

// EventType returns "approval_requested".
func (*ApprovalRequested) EventType() EventType { return EventApprovalRequested }

// EventType returns "approval_resolved".
func (*ApprovalResolved) EventType() EventType { return EventApprovalResolved }

// CommandKind returns "approve".
func (*Approve) CommandKind() CommandKind { return CommandApprove }

// CommandKind returns "deny".
func (*Deny) CommandKind() CommandKind { return CommandDeny }
