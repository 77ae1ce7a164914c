package schemas

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// ApprovalPolicy names the tools whose calls need an approval. A name is exact; "*" alone stands for every tool.
// TimeoutMs is the longest wait in milliseconds, from approval_requested; 0 is no limit.
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

// ApprovalRequested is the event of a call that waits for approval: for an approve or deny command that names Call.
// Args are the arguments that the call would be executed with. By names who requires the approval. TimeoutMs is how
// long the call waits, from the time of this event; 0 is no limit. Digest identifies the request, see
// [ApprovalRequested.DigestIn]; requests of earlier versions have none.
type ApprovalRequested struct {
	Call       CallKey         `json:"call"`
	ToolCallID string          `json:"toolCallId"`
	ToolName   string          `json:"toolName"`
	Args       json.RawMessage `json:"args"`
	Digest     string          `json:"digest,omitempty"`
	Reason     string          `json:"reason,omitempty"`
	By         string          `json:"by,omitempty"`
	TimeoutMs  int64           `json:"timeoutMs,omitempty"`
}

// DigestIn returns the digest of the request: "sha256:" and the SHA-256, in hexadecimal, of the JSON list [session,
// call, nonce, toolName, args] without white space between its tokens. args are those of the request. nonce is that of
// the call's tool_execution_start, which no other call has; not even a call with the same key in a later session with
// the same id. The error is that of args that are not JSON.
func (e *ApprovalRequested) DigestIn(session, nonce string) (string, error) {
	what, err := Marshal([]any{session, e.Call, nonce, e.ToolName, e.Args})
	if err != nil {
		return "", fmt.Errorf("schemas: digest of call %s of session %s: %w", e.Call, session, err)
	}
	sum := sha256.Sum256(what)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// ApprovalResolved is the only answer to an [ApprovalRequested]: the first that arrived, or the refusal because of a
// timeout. By names who decided. If Args is set, the approval has changed the arguments: the call is executed with
// Args, which match the tool's schema.
type ApprovalResolved struct {
	Call       CallKey         `json:"call"`
	ToolCallID string          `json:"toolCallId"`
	Approved   bool            `json:"approved"`
	By         string          `json:"by,omitempty"`
	Reason     string          `json:"reason,omitempty"`
	Args       json.RawMessage `json:"args,omitempty"`
}

// ApprovalAnswer has all members that an approve or deny may have: a message that is not an answer must not pass for
// one. Call is the key of the call. Digest is that of the request that the sender has seen. If the waiting request has
// another digest, the answer is rejected with [RejectStale] and the call keeps waiting. Without Digest the answer is
// for any request that waits under the call's key. By names who decides, for the log; without it, that is the command's
// source.
type ApprovalAnswer struct {
	Call   CallKey `json:"call"`
	Digest string  `json:"digest,omitempty"`
	By     string  `json:"by,omitempty"`
	Reason string  `json:"reason,omitempty"`
}

// Approve lets a call that waits for approval be executed. Args, a JSON object, are all arguments to execute the call
// with, in place of those of the request; without Args these are used. Arguments that do not match the tool's schema
// are rejected with [RejectInvalidArgs], and the call keeps waiting.
type Approve struct {
	ApprovalAnswer
	Args json.RawMessage `json:"args,omitempty"`
}

// Deny refuses a call that waits for approval. The model gets an error with the reason.
type Deny struct{ ApprovalAnswer }

// ReplacedArguments are arguments that a service or an approver has put in place of a call's: if the call is executed,
// then with those of its last event that has some. By names who did it.
type ReplacedArguments struct {
	Call       CallKey         `json:"call"`
	ToolCallID string          `json:"toolCallId"`
	Arguments  json.RawMessage `json:"arguments"`
	By         string          `json:"by,omitempty"`
}

// ReplacesArguments returns the arguments that an event puts in place of a call's, nil if it does not.
func ReplacesArguments(data EventData) *ReplacedArguments {
	switch d := data.(type) {
	case *HookDecision:
		if d.Args != nil && !d.Block {
			return &ReplacedArguments{d.Call, d.ToolCallID, d.Args, d.By}
		}
	case *ApprovalResolved:
		if d.Args != nil && d.Approved {
			return &ReplacedArguments{d.Call, d.ToolCallID, d.Args, d.By}
		}
	}
	return nil
}

// Answer returns an answer to this request. If the request has a digest, the answer is for no other request.
func (e *ApprovalRequested) Answer(reason string) ApprovalAnswer {
	return ApprovalAnswer{Call: e.Call, Digest: e.Digest, Reason: reason}
}

// EventType returns "approval_requested".
func (*ApprovalRequested) EventType() EventType { return EventApprovalRequested }

// EventType returns "approval_resolved".
func (*ApprovalResolved) EventType() EventType { return EventApprovalResolved }

// CommandKind returns "approve".
func (*Approve) CommandKind() CommandKind { return CommandApprove }

// CommandKind returns "deny".
func (*Deny) CommandKind() CommandKind { return CommandDeny }
