package schemas

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// ExecutionMode is whether tool calls of one batch may run at the same time.
type ExecutionMode string

// The execution modes. The zero value is the setting of the run.
const (
	ExecuteParallel   ExecutionMode = "parallel"
	ExecuteSequential ExecutionMode = "sequential"
)

// Effect is a tool's effect class: it decides whether a call is executed again after its worker died
// (docs/protocol.md).
type Effect string

// The effect classes. The zero value counts as [EffectUnsafe].
const (
	EffectReadOnly   Effect = "read_only"
	EffectIdempotent Effect = "idempotent"
	EffectUnsafe     Effect = "unsafe"
)

// Repeatable reports whether a call of this class may be executed again.
func (e Effect) Repeatable() bool { return e == EffectReadOnly || e == EffectIdempotent }

// ToolDefinition describes a tool to the runner, the model and people. Parameters is its JSON Schema; if absent, any
// object is valid. TimeoutMs is the time limit of a call in milliseconds; 0 is the runner's default. MaxResultBytes is
// the size of the largest result, as JSON; 0 is the worker's default. Scopes are those that a session must have been
// granted to call the tool. ArgumentRewrites are applied to a model's arguments, in order, before they are validated by
// Parameters.
//
// Version distinguishes definitions of one tool that are served at the same time, and Workspace is that of its workers:
// calls go to workers that announce the same version and workspace ([ToolQueue]). Channel is true if the workspace is a
// client, which has the tool for the sessions whose prompts name it as their channel ([Binding]).
//
// Revision identifies this definition to a worker whose tools change while it serves them. Every call carries it, so
// that the worker does not execute a call of another definition.
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
	Revision         string            `json:"revision,omitempty"`
}

// ToolResult is the result of a tool. Terminate requests the end of the run without another model call. The run ends
// only if all results of the batch request it, so that one tool cannot keep the results of the others from the model.
// Details is any JSON, kept byte for byte.
type ToolResult struct {
	Content   Contents        `json:"content"`
	Details   json.RawMessage `json:"details,omitempty"`
	Terminate bool            `json:"terminate,omitempty"`
}

// TextResult returns a result with one text block.
func TextResult(text string) ToolResult { return ToolResult{Content: Contents{Text{Text: text}}} }

// ErrorResult returns the result for an error: its text and empty details, as pi has it.
func ErrorResult(text string) ToolResult {
	return ToolResult{Content: Contents{Text{Text: text}}, Details: json.RawMessage("{}")}
}

// CallKey names a tool call on the bus: "c" and the sequence of its tool_execution_start. Unlike the model's id it is
// always a legal subject token and unique within its session.
type CallKey string

// NewCallKey returns the key of the call whose tool_execution_start has the given sequence.
func NewCallKey(seq uint64) CallKey { return CallKey(fmt.Sprintf("c%d", seq)) }

// Seq returns the sequence of the call's tool_execution_start; 0 for a string that is not a key.
func (k CallKey) Seq() uint64 {
	digits, ok := strings.CutPrefix(string(k), "c")
	if !ok {
		return 0
	}
	seq, _ := strconv.ParseUint(digits, 10, 64)
	return seq
}

// ToolRequest requests a worker to execute a call. Its idempotency key is the same in every delivery. Arguments are the
// validated ones. Version, Workspace and Revision are those of the tool's definition when the run started. TraceParent
// carries the W3C trace context. ReplyTo is the subject for the answer if the caller is not a session and so has no
// inbox; see [Subjects.CheckReply]. Nonce is that of the call's [ToolExecutionStart].
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
	Revision    string          `json:"revision,omitempty"`
}

// IdempotencyKey returns Session/Call/Nonce. It is the same for every delivery of the request, and no other call has
// it, even if the session was deleted and its id is used again. Without a nonce it is Session/Call.
func (r ToolRequest) IdempotencyKey() string {
	key := r.Session + "/" + string(r.Call)
	if r.Nonce != "" {
		key += "/" + r.Nonce
	}
	return key
}

// ToolResponse is the answer to a [ToolRequest], exactly one: the data of a tool_result command in the session's inbox.
// DurationMs is how long the tool ran. Worker names the worker. Nonce is that of the request: a response with another
// nonce belongs to another call, such as one of a deleted session with the same id.
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

// ToolAnnouncement is a worker's entry in the bucket agent_tools, under the key <queue>.<worker>. It expires unless the
// worker renews it.
type ToolAnnouncement struct {
	ToolDefinition
	Worker string `json:"worker"`
	Since  string `json:"since"` // RFC 3339
}

// AnnouncementKey returns the key of a worker's announcement of a tool. queue is the name of the tool's queue
// ([ToolQueue.Name]).
func AnnouncementKey(queue, worker string) string { return queue + "." + worker }

// ParseAnnouncementKey returns the queue's name and the worker of an announcement's key.
func ParseAnnouncementKey(key string) (queue, worker string, ok bool) { return strings.Cut(key, ".") }

// StoreMark is the file that marks a directory as the store of a runner's own NATS server, which has all sessions and
// the token of the console. The server creates and locks the file when it opens the directory, and leaves it there.
// Tools deny access to a directory with this file.
const StoreMark = "loopbus.lock"
