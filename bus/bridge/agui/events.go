package agui

import (
	"encoding/json"
	"iter"

	"github.com/loopbus/loopbus/schemas"
)

// protocolVersion is the version of the events.
const protocolVersion = "1.0"

// event is an event of the protocol. Members that do not belong to its type are omitted.
type event struct {
	Type            string `json:"type"`
	ThreadID        string `json:"threadId,omitempty"`
	RunID           string `json:"runId,omitempty"`
	ProtocolVersion string `json:"protocolVersion,omitempty"`

	MessageID       string  `json:"messageId,omitempty"`
	Role            string  `json:"role,omitempty"`
	Delta           string  `json:"delta,omitempty"`
	ToolCallID      string  `json:"toolCallId,omitempty"`
	ToolCallName    string  `json:"toolCallName,omitempty"`
	ParentMessageID string  `json:"parentMessageId,omitempty"`
	StepName        string  `json:"stepName,omitempty"`
	ActivityType    string  `json:"activityType,omitempty"`
	Replace         *bool   `json:"replace,omitempty"`
	Content         any     `json:"content,omitempty"`
	Message         string  `json:"message,omitempty"`
	Code            string  `json:"code,omitempty"`
	Outcome         any     `json:"outcome,omitempty"`
	Usage           []usage `json:"usage,omitempty"`

	Messages iter.Seq[any] `json:"-"` // of a snapshot; see parts
}

// usage has the tokens of a run. Cached tokens are part of the input.
type usage struct {
	Provider          string `json:"provider,omitempty"`
	Model             string `json:"model,omitempty"`
	InputTokens       int64  `json:"inputTokens"`
	OutputTokens      int64  `json:"outputTokens"`
	TotalTokens       int64  `json:"totalTokens"`
	CachedInputTokens int64  `json:"cachedInputTokens"`
	CacheWriteTokens  int64  `json:"cacheWriteInputTokens"`
}

func usageOf(u schemas.Usage, m schemas.ModelRef) []usage {
	return []usage{{Provider: m.Provider, Model: m.ID, InputTokens: u.Input + u.CacheRead + u.CacheWrite,
		OutputTokens: u.Output, TotalTokens: u.Input + u.CacheRead + u.CacheWrite + u.Output,
		CachedInputTokens: u.CacheRead, CacheWriteTokens: u.CacheWrite}}
}

// interrupt is a call that waits for approval.
type interrupt struct {
	ID             string          `json:"id"`
	Reason         string          `json:"reason"`
	Message        string          `json:"message"`
	ToolCallID     string          `json:"toolCallId"`
	ResponseSchema json.RawMessage `json:"responseSchema"`
	ExpiresAt      string          `json:"expiresAt,omitempty"`
	Metadata       map[string]any  `json:"metadata"`
}

// approvalSchema describes the payload of a resume.
var approvalSchema = json.RawMessage(`{"type":"object","properties":{"approved":{"type":"boolean"},` +
	`"reason":{"type":"string"},"editedArgs":{"type":"object"}},"required":["approved"]}`)

type outcome struct {
	Type               string      `json:"type"`
	Interrupts         []interrupt `json:"interrupts,omitempty"`
	PendingToolCallIDs []string    `json:"pendingToolCallIds,omitempty"`
}
