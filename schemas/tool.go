package schemas

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// ExecutionMode says whether tool calls of one batch may overlap.
type ExecutionMode string

// The execution modes; the zero value leaves the choice to the run's setting.
const (
	ExecuteParallel   ExecutionMode = "parallel"
	ExecuteSequential ExecutionMode = "sequential"
)

// Effect is a tool's effect class: what may be done with a call whose worker died (docs/protocol.md).
type Effect string

// The effect classes. The zero value counts as [EffectUnsafe].
const (
	EffectReadOnly   Effect = "read_only"
	EffectIdempotent Effect = "idempotent"
	EffectUnsafe     Effect = "unsafe"
)

// Repeatable reports whether a call of this class may be executed again.
func (e Effect) Repeatable() bool { return e == EffectReadOnly || e == EffectIdempotent }

// ToolDefinition describes a tool to the runner, the model and people. Parameters is its JSON Schema; absent
// means any object. TimeoutMs is the longest a call may take in milliseconds, 0 leaves it to the runner. MaxResultBytes
// is the longest answer, as JSON; 0 leaves it to the worker. Scopes are what a session must have been granted to call
// it. ArgumentRewrites are applied to a model's arguments, in order, before they are checked against Parameters.
//
// Version tells definitions of one tool apart that are served side by side, and Workspace is where its workers work:
// calls go to workers that announce the same of both ([ToolQueue]). Channel says that the workspace is a client: the
// sessions whose prompts name it as their channel may have the tool ([Binding]).
type ToolDefinition struct {
	Name          string          `json:"name"`
	Version       string          `json:"version,omitempty"`
	Workspace     string          `json:"workspace,omitempty"`
	Channel       bool            `json:"channel,omitempty"`
	Label         string          `json:"label,omitempty"`
	Description   string          `json:"description,omitempty"`
	Parameters    json.RawMessage `json:"parameters,omitempty"`
	ExecutionMode ExecutionMode   `json:"executionMode,omitempty"`
	Effect        Effect          `json:"effect,omitempty"`
	TimeoutMs     int64           `json:"timeoutMs,omitempty"`
	Scopes        []string        `json:"scopes,omitempty"`

	MaxResultBytes   int64             `json:"maxResultBytes,omitempty"`
	Annotations      *ToolAnnotations  `json:"annotations,omitempty"`
	ArgumentRewrites []ArgumentRewrite `json:"argumentRewrites,omitempty"`
}

// ToolResult is what a tool answers. Terminate asks the run to end without another model call; it does so only if every
// result of the batch asks, so that one tool of several cannot keep the others' results from the model. Details is any
// JSON, kept byte for byte.
type ToolResult struct {
	Content   Contents        `json:"content"`
	Details   json.RawMessage `json:"details,omitempty"`
	Terminate bool            `json:"terminate,omitempty"`
}

// TextResult is a result of one text block.
func TextResult(text string) ToolResult { return ToolResult{Content: Contents{Text{Text: text}}} }

// ErrorResult is the result that stands for an error: its text and empty details, as pi has it.
func ErrorResult(text string) ToolResult {
	return ToolResult{Content: Contents{Text{Text: text}}, Details: json.RawMessage("{}")}
}

// CallKey names a tool call on the bus: "c" and the sequence of its tool_execution_start. Unlike the model's id it is
// always a legal subject token and unique within its session.
type CallKey string

// NewCallKey returns the key of the call whose tool_execution_start has the given sequence.
func NewCallKey(seq uint64) CallKey { return CallKey(fmt.Sprintf("c%d", seq)) }

// Seq is the sequence of the call's tool_execution_start, 0 for what is no key.
func (k CallKey) Seq() uint64 {
	digits, ok := strings.CutPrefix(string(k), "c")
	if !ok {
		return 0
	}
	seq, _ := strconv.ParseUint(digits, 10, 64)
	return seq
}

// ToolRequest is the message that asks a worker to execute a call. Its idempotency key is the same however
// often it is delivered. Arguments are the validated ones. Version and Workspace are those of the definition
// that the run began with. TraceParent carries the W3C trace context. ReplyTo is where the answer goes if whoever asks
// is no session and has no inbox; see [Subjects.CheckReply]. Nonce is that of the call's [ToolExecutionStart].
type ToolRequest struct {
	Session     string          `json:"session"`
	RunID       string          `json:"runId"`
	TurnID      string          `json:"turnId"`
	Call        CallKey         `json:"call"`
	ToolCallID  string          `json:"toolCallId"`
	ToolName    string          `json:"toolName"`
	Version     string          `json:"version,omitempty"`
	Workspace   string          `json:"workspace,omitempty"`
	Arguments   json.RawMessage `json:"arguments"`
	Effect      Effect          `json:"effect,omitempty"`
	TimeoutMs   int64           `json:"timeoutMs,omitempty"`
	StartSeq    uint64          `json:"startSeq"`
	TraceParent string          `json:"traceparent,omitempty"`
	ReplyTo     string          `json:"replyTo,omitempty"`
	Nonce       string          `json:"nonce,omitempty"`
}

// IdempotencyKey is Session/Call/Nonce: the same for every delivery of the request, and no other call's, even if the
// session was deleted and its id is used again. Without a nonce it is Session/Call.
func (r ToolRequest) IdempotencyKey() string {
	key := r.Session + "/" + string(r.Call)
	if r.Nonce != "" {
		key += "/" + r.Nonce
	}
	return key
}

// ToolResponse is the one answer to a [ToolRequest]: the data of a tool_result command in the session's inbox.
// DurationMs is how long the tool ran. Worker names who answers. Nonce is the request's: an answer with another one is
// that of another call, such as one of a session of the same id that was deleted.
type ToolResponse struct {
	Call       CallKey    `json:"call"`
	ToolCallID string     `json:"toolCallId"`
	ToolName   string     `json:"toolName"`
	Result     ToolResult `json:"result"`
	IsError    bool       `json:"isError"`
	DurationMs int64      `json:"durationMs,omitempty"`
	Worker     string     `json:"worker,omitempty"`
	Nonce      string     `json:"nonce,omitempty"`
}

// ToolAnnouncement is a worker's entry in the bucket agent_tools, under the key <queue>.<worker>. It lives as long as
// the worker renews it.
type ToolAnnouncement struct {
	ToolDefinition
	Worker string `json:"worker"`
	Since  string `json:"since"` // RFC 3339
}

// AnnouncementKey is the key of the announcement by a worker of the tool with the queue of that name
// ([ToolQueue.Name]).
func AnnouncementKey(queue, worker string) string { return queue + "." + worker }

// ParseAnnouncementKey returns the queue's name and the worker of an announcement's key.
func ParseAnnouncementKey(key string) (queue, worker string, ok bool) { return strings.Cut(key, ".") }

// StoreMark is the file by which a directory is known for the store of a runner's own NATS server: all sessions are in
// it, and the token of the console. The server makes it when it opens the directory, and locks it; it stays. Tools deny
// what is in a directory that has it.
const StoreMark = "loopbus.lock"
