package schemas

import (
	"encoding/json"
	"time"
)

// SessionStatus is what a session is doing.
type SessionStatus string

// The statuses.
const (
	SessionIdle               SessionStatus = "idle"                 // no run; the one before, if any, did not fail
	SessionFailed             SessionStatus = "failed"               // no run; the one before failed or timed out
	SessionRunning            SessionStatus = "running"              // a model is called, or is about to be
	SessionWaitingForTools    SessionStatus = "waiting_for_tools"    // workers execute tool calls
	SessionWaitingForApproval SessionStatus = "waiting_for_approval" // a tool call waits for approval
	SessionDamaged            SessionStatus = "damaged"              // its log differs from what its writers stored
)

// Failed reports whether a run that ended for this reason failed or took too long.
func (r TerminationReason) Failed() bool { return r == EndError || r == TimeoutRun || r == TimeoutIdle }

// SessionsQuery requests a page of all sessions, latest activity first. A session is listed if it matches all filters
// that are set: it has one of Status, its Profile, its Parent, Text in its title or last message regardless of case,
// and its last activity at or after After and before Before. If Revision, that of an earlier page, is set, only
// sessions that have changed since are listed, in the order of their changes. Cursor is Next of the page before; the
// filters must then be the same as for that page. Limit is at most [MaxQueryLimit]; 0 is 50.
type SessionsQuery struct {
	Status   []SessionStatus `json:"status,omitempty"`
	Profile  string          `json:"profile,omitempty"`
	Parent   string          `json:"parent,omitempty"`
	Text     string          `json:"text,omitempty"`
	After    time.Time       `json:"after,omitzero"`
	Before   time.Time       `json:"before,omitzero"`
	Revision uint64          `json:"revision,omitempty"`
	Limit    int             `json:"limit,omitempty"`
	Cursor   string          `json:"cursor,omitempty"`
}

// SessionsPage is a page of sessions. Next is the cursor of the next page, empty on the last. Revision is that of the
// index, which grows with each change of a session. Partial is true if the index is being built, so that sessions may
// be missing.
//
// Sessions that change while the pages are read appear, perhaps a second time, on the last pages. A client that reads
// all pages therefore gets every session, in its order or at the end.
type SessionsPage struct {
	Revision uint64           `json:"revision"`
	Sessions []SessionSummary `json:"sessions"`
	Next     string           `json:"next,omitempty"`
	Partial  bool             `json:"partial,omitempty"`
}

// SessionSummary is a session in a list, as it was at its event Seq. Title is the beginning of its first prompt,
// LastMessage that of its newest message with text, Error that of the error of its newest run. Usage is the total of
// all its runs. Reason is why the newest run ended. Queued counts queued inputs, Approvals the calls that wait for
// approval.
type SessionSummary struct {
	Session      string            `json:"session"`
	Seq          uint64            `json:"seq"`
	Status       SessionStatus     `json:"status"`
	Title        string            `json:"title,omitempty"`
	LastMessage  string            `json:"lastMessage,omitempty"`
	LastRole     Role              `json:"lastRole,omitempty"`
	Model        *ModelRef         `json:"model,omitempty"`
	Profile      string            `json:"profile,omitempty"`
	Workspace    string            `json:"workspace,omitempty"`
	Parent       *SessionParent    `json:"parent,omitempty"`
	Runs         int               `json:"runs"`
	Turns        int               `json:"turns"`
	Usage        Usage             `json:"usage"`
	Created      time.Time         `json:"created"`
	LastActivity time.Time         `json:"lastActivity"`
	Reason       TerminationReason `json:"reason,omitempty"`
	Error        string            `json:"error,omitempty"`
	Queued       int               `json:"queued,omitempty"`
	Approvals    int               `json:"approvals,omitempty"`
}

// SessionParent is the origin of a session. It was branched from another session, up to that one's event Seq. Or a call
// of the tool agent in that session started it as a sub-agent: then CallID names the call, whose tool_execution_start
// is the event Seq.
type SessionParent struct {
	Session string `json:"session"`
	Seq     uint64 `json:"seq"`
	CallID  string `json:"callId,omitempty"`
}

// ApprovalsPage has tool calls that wait for approval, the oldest first. If the query was about one session, Session
// names it and Seq is the sequence of its newest event. If it was about all sessions, Revision is that of the index, as
// in [SessionsPage].
type ApprovalsPage struct {
	Session   string            `json:"session,omitempty"`
	Seq       uint64            `json:"seq,omitempty"`
	Revision  uint64            `json:"revision,omitempty"`
	Approvals []PendingApproval `json:"approvals"`
	Next      string            `json:"next,omitempty"`
	Partial   bool              `json:"partial,omitempty"`
}

// PendingApproval is a tool call that waits for approval since Requested, by the event Seq. Where the arguments are
// left out because they are long, ArgsSize is their size in bytes. Digest is that of the request. Expires is when time
// denies it; nil is never.
type PendingApproval struct {
	Session    string          `json:"session"`
	Seq        uint64          `json:"seq"`
	Call       CallKey         `json:"call"`
	ToolCallID string          `json:"toolCallId"`
	ToolName   string          `json:"toolName"`
	Args       json.RawMessage `json:"args,omitempty"`
	ArgsSize   int             `json:"argsSize,omitempty"`
	Digest     string          `json:"digest,omitempty"`
	Reason     string          `json:"reason,omitempty"`
	By         string          `json:"by,omitempty"`
	Requested  time.Time       `json:"requested"`
	Expires    *time.Time      `json:"expires,omitempty"`
}

// SessionTree is a page of a session's tree, as its log is at the event Seq, and its family: what it was branched from,
// what was branched from it, and so on, as far as that is known. Leaf is the entry that the next one will be a child
// of, "" for the root. Entries come in the order of the log, Next is the cursor of those that follow, empty where there
// are none. Of relatives Nodes has nothing but their ids and where they parted; the first page has it. Revision is that
// of the index, 0 on other pages. Partial says that the index is being built, or that the family is larger than an
// answer.
type SessionTree struct {
	Session  string      `json:"session"`
	Revision uint64      `json:"revision"`
	Nodes    []TreeNode  `json:"nodes"`
	Partial  bool        `json:"partial,omitempty"`
	Seq      uint64      `json:"seq"`
	Name     string      `json:"name,omitempty"`
	Leaf     string      `json:"leaf"`
	Entries  []TreeEntry `json:"entries"`
	Next     string      `json:"next,omitempty"`
}

// TreeNode is a session of a family, and where it was branched from.
type TreeNode struct {
	Session string         `json:"session"`
	Parent  *SessionParent `json:"parent,omitempty"`
}

// ModelsPage answers a [PageQuery] for [QueryModels].
type ModelsPage struct {
	Models []ModelInfo `json:"models"`
	Next   string      `json:"next,omitempty"`
}

// ModelInfo is a model in a runner's catalogue. Numbers of tokens that are not known are 0.
type ModelInfo struct {
	API            string          `json:"api"`
	Provider       string          `json:"provider"`
	ID             string          `json:"id"`
	Name           string          `json:"name,omitempty"`
	ContextWindow  int64           `json:"contextWindow"`
	MaxTokens      int64           `json:"maxTokens"` // of one reply
	ThinkingLevels []ThinkingLevel `json:"thinkingLevels,omitempty"`
	Images         bool            `json:"images,omitempty"` // it takes them
	Rates          ModelRates      `json:"rates"`
	// Key says that the runner has a key for the model or needs none; whether the key is right is not tried.
	Key bool `json:"key"`
}

// Ref names the model.
func (m ModelInfo) Ref() ModelRef { return ModelRef{API: m.API, Provider: m.Provider, ID: m.ID} }

// ModelRates are prices in US dollars per million tokens; 0 is unknown, or free.
type ModelRates struct {
	Input      float64 `json:"input"`
	Output     float64 `json:"output"`
	CacheRead  float64 `json:"cacheRead,omitempty"`
	CacheWrite float64 `json:"cacheWrite,omitempty"`
}

// TreeEntryType says what an entry of a session's tree is.
type TreeEntryType string

// What entries are.
const (
	EntryMessage       TreeEntryType = "message"
	EntryCustom        TreeEntryType = "custom"
	EntryCustomMessage TreeEntryType = "custom_message"
	EntryBranchSummary TreeEntryType = "branch_summary"
	EntryCompaction    TreeEntryType = "compaction"
)

// TreeEntry is an entry of a session's tree: a child of Parent, or a root. Seq is the sequence of its event. Text is
// the beginning of its text.
type TreeEntry struct {
	ID         string        `json:"id"`
	Parent     string        `json:"parent,omitempty"`
	Seq        uint64        `json:"seq"`
	Type       TreeEntryType `json:"type"`
	Role       Role          `json:"role,omitempty"`
	CustomType string        `json:"customType,omitempty"`
	Text       string        `json:"text,omitempty"`
	Label      string        `json:"label,omitempty"`
	Time       time.Time     `json:"time"`
}
