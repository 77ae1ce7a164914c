package schemas

import (
	"encoding/json"
	"time"
)

// Queue names where an accepted input waits.
type Queue string

// The queues of a session. An input that interrupts waits in front of the prompts.
const (
	QueuePrompts   Queue = "prompts"
	QueueInterrupt Queue = "interrupt"
	QueueSteering  Queue = "steering"
	QueueFollowUp  Queue = "follow_up"
)

// CommandAccepted says that a command is in the log and will have an outcome. Data is its payload: what waits in a
// queue waits here. The command's id is CommandID, which is also the event's causation id. Queue is where an input
// waits, empty for other commands. Follows are the events that the command decided on besides, in order; they are
// appended right after this one, by another process if this one dies first. Nil, which no writer of this version leaves
// it at, is how logs of before Follows are known.
type CommandAccepted struct {
	CommandID string          `json:"commandId"`
	Kind      CommandKind     `json:"kind"`
	Queue     Queue           `json:"queue,omitempty"`
	Source    string          `json:"source,omitempty"`
	Time      *time.Time      `json:"time,omitempty"`
	Data      json.RawMessage `json:"data,omitempty"`
	Follows   []Follow        `json:"follows,omitzero"`
}

// Follow is what is needed to append an event that follows a command_accepted. Type is command_applied,
// command_superseded, command_withdrawn, approval_resolved, or label, session_info, custom, custom_message or
// subagent_end, whose payload is the command's. CommandID and Kind name the command that the event is
// about, where that is not the accepted one itself. Resolved is the event where it is an approval_resolved, else nil.
type Follow struct {
	Type      EventType         `json:"type"`
	CommandID string            `json:"commandId,omitempty"`
	Kind      CommandKind       `json:"kind,omitempty"`
	Resolved  *ApprovalResolved `json:"resolved,omitempty"`
}

// CommandApplied says that a command has had its effect. RunID and TurnID of the event say where; MessageIDs are the
// messages it became. Text is that of the message before which a navigate or a branch went, to be written
// anew.
type CommandApplied struct {
	CommandID  string      `json:"commandId"`
	Kind       CommandKind `json:"kind"`
	MessageIDs []string    `json:"messageIds,omitempty"`
	Text       string      `json:"text,omitempty"`
}

// CommandRejected says that a command was refused and changed nothing. Code is stable, Reason is for people.
// StreamSeq is the sequence of the refused message in its stream, where it came from one.
type CommandRejected struct {
	CommandID string      `json:"commandId"`
	Kind      CommandKind `json:"kind"`
	Code      RejectCode  `json:"code"`
	Reason    string      `json:"reason"`
	StreamSeq uint64      `json:"streamSeq,omitempty"`
}

// RejectCode says for programs why a command was refused. It is stable; a later version may have more codes.
type RejectCode string

// Why a command is refused. Nothing is refused with stale or internal, which are reserved.
const (
	RejectInvalid    RejectCode = "invalid"     // malformed, of a wrong type, not matching its schema
	RejectUnknown    RejectCode = "unknown"     // an unknown kind
	RejectTooLarge   RejectCode = "too_large"   // an oversized payload
	RejectBusy       RejectCode = "busy"        // a run is under way
	RejectNoRun      RejectCode = "no_run"      // nothing to abort
	RejectNotFound   RejectCode = "not_found"   // no such input, call, session or entry
	RejectConsumed   RejectCode = "consumed"    // cancel_input: already in the transcript
	RejectState      RejectCode = "state"       // cannot be done in this state, such as continue from an assistant message
	RejectNoTool     RejectCode = "no_tool"     // set_tools names a tool that nobody announces
	RejectNoModel    RejectCode = "no_model"    // set_model names a model that nobody serves
	RejectNoProfile  RejectCode = "no_profile"  // set_profile names a profile that there is not
	RejectStale      RejectCode = "stale"       // a result or timer of something that is settled
	RejectQueueFull  RejectCode = "queue_full"  // more is queued than a session may hold
	RejectDelivery   RejectCode = "delivery"    // given up after too many deliveries
	RejectPermission RejectCode = "permission"  // subagent_prompt: its parent's log does not bear it out
	RejectInternal   RejectCode = "internal"    // a fault of the runner
	RejectNotPlain   RejectCode = "not_plain"   // plain text where only JSON will do
	RejectCloudEvent RejectCode = "cloud_event" // a CloudEvent with a missing or wrong attribute
	RejectFailed     RejectCode = "failed"      // compact, navigate: there is no summary, for the reason given
	RejectAborted    RejectCode = "aborted"     // compact, navigate: an abort has stopped it, or a service was against it
	RejectForeign    RejectCode = "foreign"     // an answer of a NATS server, or a message of loopbus that is no command

	// RejectInvalidArgs is an approve that changes the arguments to some that do not fit the tool's schema.
	RejectInvalidArgs RejectCode = "invalid_args"
)

// CommandSuperseded says that a queued command will not take effect because another took its place.
type CommandSuperseded struct {
	CommandID string      `json:"commandId"`
	Kind      CommandKind `json:"kind"`
	By        string      `json:"by"`
}

// CommandWithdrawn says that a queued command was withdrawn by the command By before it took effect.
type CommandWithdrawn struct {
	CommandID string      `json:"commandId"`
	Kind      CommandKind `json:"kind"`
	By        string      `json:"by"`
}

// RunResumed says that another process, or the same one after a fault, goes on with a run. From is the last sequence
// it found; MessageID is the reply that was being streamed and is closed as interrupted, if any.
type RunResumed struct {
	From      uint64 `json:"from"`
	Reason    string `json:"reason"`
	MessageID string `json:"messageId,omitempty"`
}

// QueueUpdate says what is queued, by command id, after a poll took Taken out of a queue. The messages of Taken follow.
type QueueUpdate struct {
	Steering []string `json:"steering"`
	FollowUp []string `json:"followUp"`
	Prompts  []string `json:"prompts,omitempty"`
	Taken    []string `json:"taken,omitempty"`
}

// HookDecision records what a hook decided, so that replay and recovery do not ask again. It is about the call, the
// input (CommandID) or the message (MessageID) that it names, or about the model call that follows. Args are the
// arguments as the hook left them, where it changed them. Ask says that the call needs an approval, which is waited for
// TimeoutMs milliseconds, 0 for ever. Handled says that no run sees the input; Messages are what it brings instead, or,
// before_agent_start, besides. SystemPrompt is that of the run that begins. Changed names the members of a message,
// result or context that were replaced; what they became stands in the event of that message, or, for a context,
// nowhere. Compaction and Summary are what a service has written, CustomInstructions, ReplaceInstructions and Label
// what it has said in the place of a navigate's; Block of a compaction, a navigation or a fork that it is not to be. By
// names who decided, and Failures the services that gave no valid answer in time. Sources are the files of the
// workspace that an input was expanded to.
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

// TranscriptReplaced says that the transcript was set from outside: the in-memory Agent's reset and assignment.
// ClearQueues also empties the queues and forgets the last error.
type TranscriptReplaced struct {
	Messages    Messages `json:"messages"`
	ClearQueues bool     `json:"clearQueues,omitempty"`
}

// ErrorEvent says that something went wrong outside a reply or a tool. Recoverable says whether the run goes on.
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
