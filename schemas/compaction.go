package schemas

import "encoding/json"

// CompactionPolicy defines when the older part of a context is summarized, and by which model. Unless Enabled is set,
// that happens only by command. ReserveTokens of the window are kept free for a reply, KeepRecentTokens of the newest
// messages are kept as they are; 0 means pi's defaults of 16384 and 20000, and fewer if the window is small. Model
// writes the summaries; nil means the model of the run.
type CompactionPolicy struct {
	Enabled          bool      `json:"enabled,omitempty"`
	ReserveTokens    int64     `json:"reserveTokens,omitempty"`
	KeepRecentTokens int64     `json:"keepRecentTokens,omitempty"`
	Model            *ModelRef `json:"model,omitempty"`
}

// Compact summarizes the older part of the context now. CustomInstructions tell the model what the summary should focus
// on.
type Compact struct {
	CustomInstructions string `json:"customInstructions,omitempty"`
}

// CompactionReason is why a context is compacted.
type CompactionReason string

// The reasons.
const (
	CompactManual    CompactionReason = "manual"    // a compact command
	CompactThreshold CompactionReason = "threshold" // the reserve of the window is reached
	CompactOverflow  CompactionReason = "overflow"  // the model refused the context for its length
)

// Summing is how a model is called for a summary.
type Summing struct {
	Model         ModelRef      `json:"model"`
	ThinkingLevel ThinkingLevel `json:"thinkingLevel,omitempty"`
	Retry         RetryPolicy   `json:"retry,omitzero"`
	ContextWindow int64         `json:"contextWindow,omitempty"` // in tokens; 0 is unknown
}

// CompactionStart is the event before a model summarizes what comes before the entry FirstKeptEntryID. It has all that
// the requests are made from besides the context at that moment, so that another process makes the same requests.
// MessageID is the reply that failed because the context was too long; it is removed from the transcript. Split is true
// if the cut is in the middle of a turn.
type CompactionStart struct {
	Reason             CompactionReason `json:"reason"`
	CommandID          string           `json:"commandId,omitempty"`
	CustomInstructions string           `json:"customInstructions,omitempty"`
	MessageID          string           `json:"messageId,omitempty"`
	FirstKeptEntryID   string           `json:"firstKeptEntryId"`
	Split              bool             `json:"split,omitempty"`
	TokensBefore       int64            `json:"tokensBefore"`
	ReserveTokens      int64            `json:"reserveTokens"`
	KeepRecentTokens   int64            `json:"keepRecentTokens"`
	Summing
}

// SummaryEnd is the event after one request for a summary, with the whole reply. Part names the request. If the reply
// is no summary and Retry is set, the request is retried, at the earliest RetryDelayMs after this event; otherwise
// there will be no summary, and Error is the reason.
type SummaryEnd struct {
	Part         string      `json:"part"`
	Message      AnyMessage  `json:"message"`
	FailureCode  FailureCode `json:"failureCode,omitempty"`
	Error        string      `json:"error,omitempty"`
	Retry        bool        `json:"retry,omitempty"`
	RetryDelayMs int64       `json:"retryDelayMs,omitempty"`
	DurationMs   int64       `json:"durationMs,omitempty"`
}

// CompactionEnd is the event after a compaction: the context is the summary and what follows from FirstKeptEntryID on.
// If ErrorMessage is set, the context is unchanged; Aborted is true if an abort or a service caused that. The tokens
// are estimates of the context, Usage is that of all requests. FromHook is true if a service has written the summary.
type CompactionEnd struct {
	Reason           CompactionReason `json:"reason"`
	CommandID        string           `json:"commandId,omitempty"`
	Summary          string           `json:"summary,omitempty"`
	FirstKeptEntryID string           `json:"firstKeptEntryId,omitempty"`
	TokensBefore     int64            `json:"tokensBefore"`
	TokensAfter      int64            `json:"tokensAfter,omitempty"`
	Details          *FileLists       `json:"details,omitempty"`
	FromHook         bool             `json:"fromHook,omitempty"`
	Usage            Usage            `json:"usage"`
	Aborted          bool             `json:"aborted,omitempty"`
	ErrorMessage     string           `json:"errorMessage,omitempty"`
}

// BranchSummaryStart is the event before a model summarizes what Move leaves behind. The leaf is moved afterwards.
type BranchSummaryStart struct {
	Move Leaf `json:"move"`
	Summing
}

// BranchSummaryEnd is the event after a summary that failed: the leaf stays where it is. Aborted is true if an abort or
// a service caused that. A summary that succeeded is in the event leaf.
type BranchSummaryEnd struct {
	Usage        Usage  `json:"usage"`
	Aborted      bool   `json:"aborted,omitempty"`
	ErrorMessage string `json:"errorMessage"`
}

// SuppliedCompaction is a summary that a service has written. Without FirstKeptEntryID the runner's own cut is used.
// Details is any JSON.
type SuppliedCompaction struct {
	Summary          string          `json:"summary"`
	FirstKeptEntryID string          `json:"firstKeptEntryId,omitempty"`
	Details          json.RawMessage `json:"details,omitempty"`
}

// ContextUsage is how much of a model's window a context fills, in tokens: the number that the newest reply reported
// plus an estimate of the messages since.
type ContextUsage struct {
	Tokens        int64 `json:"tokens"`
	ContextWindow int64 `json:"contextWindow"`
}

// CommandKind returns "compact".
func (*Compact) CommandKind() CommandKind { return CommandCompact }

// EventType returns "compaction_start".
func (*CompactionStart) EventType() EventType { return EventCompactionStart }

// EventType returns "summary_end".
func (*SummaryEnd) EventType() EventType { return EventSummaryEnd }

// EventType returns "compaction_end".
func (*CompactionEnd) EventType() EventType { return EventCompactionEnd }

// EventType returns "branch_summary_start".
func (*BranchSummaryStart) EventType() EventType { return EventBranchSummaryStart }

// EventType returns "branch_summary_end".
func (*BranchSummaryEnd) EventType() EventType { return EventBranchSummaryEnd }
