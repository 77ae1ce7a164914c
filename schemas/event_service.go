package schemas

import (
	"encoding/json"
	"time"
)

// Queue is the name of a queue in which accepted inputs wait.
type Queue string

// The queues of a session. An input that interrupts waits in front of the prompts.
const (
	QueuePrompts   Queue = "prompts"
	QueueInterrupt Queue = "interrupt"
	QueueSteering  Queue = "steering"
	QueueFollowUp  Queue = "follow_up"
)

// CommandAccepted is the event of a command that is in the log and will have an outcome. Data is its payload. CommandID
// is its id, which is also the event's causation id. Queue is where an input waits, empty for other commands. Follows
// are further events that follow from the command, in order; they are appended right after this one, by another runner
// if this one dies first. This version always writes Follows; it is nil in logs of earlier versions only. The position
// is that of the command's message, zero if it did not come from an inbox.
type CommandAccepted struct {
	CommandID string          `json:"commandId"`
	Kind      CommandKind     `json:"kind"`
	Queue     Queue           `json:"queue,omitempty"`
	Source    string          `json:"source,omitempty"`
	Time      *time.Time      `json:"time,omitempty"`
	Data      json.RawMessage `json:"data,omitempty"`
	Follows   []Follow        `json:"follows,omitzero"`
	InboxPosition
}

// Follow is what is needed to append an event that follows a command_accepted. Type is command_applied,
// command_superseded, command_withdrawn, approval_resolved, or label, session_info, custom, custom_message or
// subagent_end, whose payload is the command's. CommandID and Kind name the command that the event is about, if that is
// not the accepted one. Resolved is the data of an approval_resolved, else nil.
type Follow struct {
	Type      EventType         `json:"type"`
	CommandID string            `json:"commandId,omitempty"`
	Kind      CommandKind       `json:"kind,omitempty"`
	Resolved  *ApprovalResolved `json:"resolved,omitempty"`
}

// CommandApplied is the event of a command that has taken effect, in the event's RunID and TurnID. MessageIDs are the
// messages that it added. Text is that of the user's message before which a navigate or a branch stopped, for the user
// to edit.
type CommandApplied struct {
	CommandID  string      `json:"commandId"`
	Kind       CommandKind `json:"kind"`
	MessageIDs []string    `json:"messageIds,omitempty"`
	Text       string      `json:"text,omitempty"`
}

// CommandRejected is the event of a command that was rejected and changed nothing. Code is stable, Reason is for
// people. The position is that of the rejected message, zero if it did not come from an inbox.
type CommandRejected struct {
	CommandID string      `json:"commandId"`
	Kind      CommandKind `json:"kind"`
	Code      RejectCode  `json:"code"`
	Reason    string      `json:"reason"`
	InboxPosition
}

// RejectCode tells programs why a command was rejected. Codes are stable; a later version may have more.
type RejectCode string

// The codes of rejected commands. RejectInternal is reserved and not used.
const (
	RejectInvalid    RejectCode = "invalid"     // malformed, of a wrong type, not matching its schema
	RejectUnknown    RejectCode = "unknown"     // an unknown kind
	RejectTooLarge   RejectCode = "too_large"   // an oversized payload
	RejectBusy       RejectCode = "busy"        // there is a current run
	RejectNoRun      RejectCode = "no_run"      // nothing to abort
	RejectNotFound   RejectCode = "not_found"   // no such input, call, session or entry
	RejectConsumed   RejectCode = "consumed"    // cancel_input: already in the transcript
	RejectState      RejectCode = "state"       // cannot be done in this state, such as continue from an assistant message
	RejectNoTool     RejectCode = "no_tool"     // set_tools names a tool that no worker announces
	RejectNoModel    RejectCode = "no_model"    // set_model names a model that is not served
	RejectNoProfile  RejectCode = "no_profile"  // set_profile names a profile that does not exist
	RejectStale      RejectCode = "stale"       // approve, deny: the waiting request has another digest
	RejectQueueFull  RejectCode = "queue_full"  // the queues of the session are full
	RejectDelivery   RejectCode = "delivery"    // given up after too many deliveries
	RejectPermission RejectCode = "permission"  // subagent_prompt: its parent's log has no such call
	RejectInternal   RejectCode = "internal"    // a fault of the runner
	RejectNotPlain   RejectCode = "not_plain"   // plain text for a kind that needs JSON
	RejectCloudEvent RejectCode = "cloud_event" // a CloudEvent with a missing or wrong attribute
	RejectFailed     RejectCode = "failed"      // compact, navigate: the summary failed, see the reason
	RejectAborted    RejectCode = "aborted"     // compact, navigate: stopped by an abort or a service
	RejectForeign    RejectCode = "foreign"     // an answer of a NATS server, or a message of loopbus that is no command

	// RejectInvalidArgs rejects an approve whose arguments do not match the tool's schema.
	RejectInvalidArgs RejectCode = "invalid_args"
)

// CommandSuperseded is the event of a queued command that will not take effect because the command By took its place.
type CommandSuperseded struct {
	CommandID string      `json:"commandId"`
	Kind      CommandKind `json:"kind"`
	By        string      `json:"by"`
}

// CommandWithdrawn is the event of a queued command that the command By withdrew before it took effect.
type CommandWithdrawn struct {
	CommandID string      `json:"commandId"`
	Kind      CommandKind `json:"kind"`
	By        string      `json:"by"`
}

// RunResumed is the event of another process, or the same one after a fault, that continues a run. From is the last
// sequence that it found. MessageID is the reply that was being streamed and is closed as interrupted, if any.
type RunResumed struct {
	From      uint64 `json:"from"`
	Reason    string `json:"reason"`
	MessageID string `json:"messageId,omitempty"`
}

// QueueUpdate has the queues, by command id, after a poll took the commands Taken out of one. The messages of these
// commands follow.
type QueueUpdate struct {
	Steering []string `json:"steering"`
	FollowUp []string `json:"followUp"`
	Prompts  []string `json:"prompts,omitempty"`
	Taken    []string `json:"taken,omitempty"`
}

// HookDecision records the decision of a hook, so that replay and recovery do not call the service again. It is about
// the call, the input (CommandID) or the message (MessageID) that it names, or about the model call that follows.
//
// Block refuses the call, or cancels a compaction, a navigation or a fork. Ask is true if the call needs an approval,
// which may take TimeoutMs milliseconds; 0 is no limit. Args are the arguments as the hook changed them. Handled is
// true if no run receives the input. Messages replace those of the input, or, of before_agent_start, are added to them.
// SystemPrompt is that of the run that starts. Changed names the members of a message, result or context that were
// replaced; the event of that message has the new values, and those of a context are not recorded. Compaction and
// Summary were written by a service; CustomInstructions, ReplaceInstructions and Label replace those of a navigate. By
// names who decided, and Failures the services that gave no valid answer in time. Sources are the files of the
// workspace to which an input was expanded.
type HookDecision struct {
	Hook         HookName        `json:"hook"`
	ToolCallID   string          `json:"toolCallId,omitempty"`
	Call         CallKey         `json:"call,omitempty"`
	CommandID    string          `json:"commandId,omitempty"`
	MessageID    string          `json:"messageId,omitempty"`
	Block        bool            `json:"block,omitempty"`
	Ask          bool            `json:"ask,omitempty"`
	TimeoutMs    int64           `json:"timeoutMs,omitempty"`
	Reason       string          `json:"reason,omitempty"`
	Args         json.RawMessage `json:"args,omitempty"`
	Handled      bool            `json:"handled,omitempty"`
	Messages     Messages        `json:"messages,omitzero"`
	SystemPrompt *string         `json:"systemPrompt,omitempty"`

	Compaction          *SuppliedCompaction `json:"compaction,omitempty"`
	Summary             string              `json:"summary,omitempty"`
	CustomInstructions  *string             `json:"customInstructions,omitempty"`
	ReplaceInstructions *bool               `json:"replaceInstructions,omitempty"`
	Label               *string             `json:"label,omitempty"`

	Changed  []string       `json:"changed,omitempty"`
	By       string         `json:"by,omitempty"`
	Failures []HookFailure  `json:"failures,omitempty"`
	Sources  []PromptSource `json:"sources,omitempty"`
}

// TranscriptReplaced is the event of a transcript that was set from outside: by the in-memory Agent's reset and
// assignment. If ClearQueues is set, the queues and the last error were cleared too.
type TranscriptReplaced struct {
	Messages    Messages `json:"messages"`
	ClearQueues bool     `json:"clearQueues,omitempty"`
}

// ErrorEvent is an error outside a reply or a tool. Recoverable reports whether the run goes on.
type ErrorEvent struct {
	Code        string `json:"code"`
	Message     string `json:"message"`
	Recoverable bool   `json:"recoverable"`
}

// MarshalJSON never writes null for the two lists that are always there.
func (e *QueueUpdate) MarshalJSON() ([]byte, error) {
	type plain QueueUpdate
	p := plain(*e)
	p.Steering, p.FollowUp = notNil(p.Steering), notNil(p.FollowUp)
	return marshalPlain(p)
}

// EventType returns "command_accepted".
func (*CommandAccepted) EventType() EventType { return EventCommandAccepted }

// EventType returns "command_applied".
func (*CommandApplied) EventType() EventType { return EventCommandApplied }

// EventType returns "command_rejected".
func (*CommandRejected) EventType() EventType { return EventCommandRejected }

// EventType returns "command_superseded".
func (*CommandSuperseded) EventType() EventType { return EventCommandSuperseded }

// EventType returns "command_withdrawn".
func (*CommandWithdrawn) EventType() EventType { return EventCommandWithdrawn }

// EventType returns "run_resumed".
func (*RunResumed) EventType() EventType { return EventRunResumed }

// EventType returns "queue_update".
func (*QueueUpdate) EventType() EventType { return EventQueueUpdate }

// EventType returns "hook_decision".
func (*HookDecision) EventType() EventType { return EventHookDecision }

// EventType returns "transcript_replaced".
func (*TranscriptReplaced) EventType() EventType { return EventTranscriptReplaced }

// EventType returns "error".
func (*ErrorEvent) EventType() EventType { return EventError }
