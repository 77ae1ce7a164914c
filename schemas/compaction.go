package schemas

import "encoding/json"

// CompactionPolicy says when the older part of a context is summed up, and by which model. Without Enabled that happens
// only when somebody asks for it. ReserveTokens of the window stay free for a reply, KeepRecentTokens of the newest
// messages stay as they are; 0 is pi's 16384 and 20000, and both are less where the window is small. Model writes the
// summaries, nil is that of the run.
type CompactionPolicy struct {
	Enabled          bool      `json:"enabled,omitempty"`
	ReserveTokens    int64     `json:"reserveTokens,omitempty"`
	KeepRecentTokens int64     `json:"keepRecentTokens,omitempty"`
	Model            *ModelRef `json:"model,omitempty"`
}

// Compact has the older part of the context summed up now. CustomInstructions say what the summary is to look at.
type Compact struct {
	CustomInstructions string `json:"customInstructions,omitempty"`
}

// CompactionReason says why a context is compacted.
type CompactionReason string

// The reasons.
const (
	CompactManual    CompactionReason = "manual"    // a compact command
	CompactThreshold CompactionReason = "threshold" // the reserve of the window is reached
	CompactOverflow  CompactionReason = "overflow"  // the model refused the context for its length
)

// Summing is how a model is asked for a summary.
type Summing struct {
	Model         ModelRef      `json:"model"`
	ThinkingLevel ThinkingLevel `json:"thinkingLevel,omitempty"`
	Retry         RetryPolicy   `json:"retry,omitzero"`
	ContextWindow int64         `json:"contextWindow,omitempty"` // in tokens; 0 is unknown
}

// CompactionStart says that what comes before the entry FirstKeptEntryID is going to be summed up. It says all that the
// requests are made from besides the context as it was then, so that another process makes the same. MessageID is the
// reply that failed because the context was too long; it leaves the transcript. Split says that the cut is inside a
// turn.
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

// SummaryEnd is what came of one request for a summary: the reply, whole. Part says which request it was. Of a reply
// that is no summary RetryDelayMs says that the model is asked again so long after this event, at least; without it
// nothing comes of the summary, and Error says why.
type SummaryEnd struct {
	Part         string      `json:"part"`
	Message      AnyMessage  `json:"message"`
	FailureCode  FailureCode `json:"failureCode,omitempty"`
	Error        string      `json:"error,omitempty"`
	Retry        bool        `json:"retry,omitempty"`
	RetryDelayMs int64       `json:"retryDelayMs,omitempty"`
	DurationMs   int64       `json:"durationMs,omitempty"`
}

// CompactionEnd says that the context is the summary and what follows from FirstKeptEntryID on, or, with ErrorMessage,
// that nothing has changed; Aborted says that somebody wanted it so. The tokens are estimates of the context, Usage is
// that of all requests. FromHook says that a service has written the summary.
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

// BranchSummaryStart says that what Move leaves behind is going to be summed up before the leaf is moved.
type BranchSummaryStart struct {
	Move Leaf `json:"move"`
	Summing
}

// BranchSummaryEnd says that nothing came of the summary, and that the leaf stays where it is. Aborted says that
// somebody wanted it so. A summary that was made is in the event leaf.
type BranchSummaryEnd struct {
	Usage        Usage  `json:"usage"`
	Aborted      bool   `json:"aborted,omitempty"`
	ErrorMessage string `json:"errorMessage"`
}

// SuppliedCompaction is a summary that a service has written. Without FirstKeptEntryID the cut stays where it was to
// be. Details is any JSON.
type SuppliedCompaction struct {
	Summary          string          `json:"summary"`
	FirstKeptEntryID string          `json:"firstKeptEntryId,omitempty"`
	Details          json.RawMessage `json:"details,omitempty"`
}

// ContextUsage is how much of a model's window a context takes, in tokens: what the newest reply reported and estimates
// of what followed.
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
