package schemas

import (
	"cmp"
	"encoding/json"
)

// RunConfig is the configuration of a run. It is fixed when the run starts; settings that change during the run are for
// the next one.
type RunConfig struct {
	Model         ModelRef         `json:"model"`
	ThinkingLevel ThinkingLevel    `json:"thinkingLevel,omitempty"`
	SystemPrompt  string           `json:"systemPrompt,omitempty"`
	Tools         []ToolDefinition `json:"tools,omitempty"`
	ToolExecution ExecutionMode    `json:"toolExecution,omitempty"`
	Limits        Limits           `json:"limits,omitzero"`
	Retry         RetryPolicy      `json:"retry,omitzero"`
	Fallbacks     []ModelRef       `json:"fallbacks,omitempty"` // in this order, if Model fails and retries do not help
	Approval      ApprovalPolicy   `json:"approval,omitzero"`
	Workspace     string           `json:"workspace,omitempty"` // whose workers execute the tool calls
	Profile       string           `json:"profile,omitempty"`   // that the session follows
	Budget        ProfileBudget    `json:"budget,omitzero"`     // of the profile
	Hooks         []HookRef        `json:"hooks,omitempty"`     // called in this order
	Layers        []ToolLayer      `json:"layers,omitempty"`    // how Tools was made
	Sources       []PromptSource   `json:"sources,omitempty"`   // files that are part of SystemPrompt

	Compaction    CompactionPolicy `json:"compaction,omitzero"`
	Subagents     SubagentPolicy   `json:"subagents,omitzero"`
	ContextWindow int64            `json:"contextWindow,omitempty"` // smallest of all its models, in tokens; 0 if unknown
}

// Limits end a run; zero is no limit. Costs are in US dollars. RunTimeoutMs counts from agent_start. The budgets of
// tokens and money are checked before each request; WarnShare is the share of one, up to 1, at which a [BudgetWarning]
// is emitted.
type Limits struct {
	MaxTurns         int     `json:"maxTurns,omitempty"`
	MaxTokens        int64   `json:"maxTokens,omitempty"`
	MaxCost          float64 `json:"maxCost,omitempty"`
	SessionMaxTokens int64   `json:"sessionMaxTokens,omitempty"`
	SessionMaxCost   float64 `json:"sessionMaxCost,omitempty"`
	WarnShare        float64 `json:"warnShare,omitempty"`
	RunTimeoutMs     int64   `json:"runTimeoutMs,omitempty"`
}

// Over returns the limits of l, and those of other where l has none.
func (l Limits) Over(other Limits) Limits {
	return Limits{
		MaxTurns: cmp.Or(l.MaxTurns, other.MaxTurns), MaxTokens: cmp.Or(l.MaxTokens, other.MaxTokens),
		MaxCost: cmp.Or(l.MaxCost, other.MaxCost), SessionMaxTokens: cmp.Or(l.SessionMaxTokens, other.SessionMaxTokens),
		SessionMaxCost: cmp.Or(l.SessionMaxCost, other.SessionMaxCost), WarnShare: cmp.Or(l.WarnShare, other.WarnShare),
		RunTimeoutMs: cmp.Or(l.RunTimeoutMs, other.RunTimeoutMs),
	}
}

// TerminationReason is why a run ended.
type TerminationReason string

// The termination reasons (docs/protocol.md).
const (
	EndNoToolCalls   TerminationReason = "no_tool_calls"
	EndTerminate     TerminationReason = "terminate"
	EndStopRequested TerminationReason = "stop_requested"
	EndMaxTurns      TerminationReason = "max_turns"
	EndBudget        TerminationReason = "budget"
	TimeoutRun       TerminationReason = "timeout_48h"
	TimeoutIdle      TerminationReason = "idle_timeout_120s"
	EndAbort         TerminationReason = "abort_signal"
	EndError         TerminationReason = "error"
)

// Normal reports whether the run ended of its own accord.
func (r TerminationReason) Normal() bool {
	return r == EndNoToolCalls || r == EndTerminate || r == EndStopRequested
}

// AgentStart starts a run. Config is nil if it equals that of the run before, so that a log does not repeat prompts and
// tool schemas. Inputs are the ids of the commands whose messages begin the first turn, in order; it is empty for
// continue. SkipSteering is true if the first poll of the steering queue is skipped, because the inputs came from
// there. ErrorMessage is set if the configuration could not be resolved: the run adds its inputs to the transcript and
// fails.
type AgentStart struct {
	Config       *RunConfig `json:"config,omitempty"`
	Inputs       []string   `json:"inputs,omitempty"`
	SkipSteering bool       `json:"skipSteering,omitempty"`
	ErrorMessage string     `json:"errorMessage,omitempty"`
}

// AgentEnd ends a run. Messages are the ids of the messages that the run added to the transcript. DurationMs counts
// from agent_start.
type AgentEnd struct {
	Messages          []string          `json:"messages"`
	TerminationReason TerminationReason `json:"terminationReason"`
	ErrorMessage      string            `json:"errorMessage,omitempty"`
	Turns             int               `json:"turns"`
	Usage             Usage             `json:"usage"`
	DurationMs        int64             `json:"durationMs"`
}

// TurnStart starts a turn. TurnIndex counts from 0 within the run.
type TurnStart struct {
	TurnIndex int `json:"turnIndex"`
}

// TurnEnd ends a turn. It has the ids of its reply and of the results of its tool calls, in the order of the calls.
// ContextUsage is nil if the size of the window is unknown.
type TurnEnd struct {
	MessageID    string        `json:"messageId"`
	ToolResults  []string      `json:"toolResults"`
	ContextUsage *ContextUsage `json:"contextUsage,omitempty"`
}

// MessageStart announces a message, whose content follows in message_end. For a reply, API, Provider and Model name the
// model; for a tool result, ToolCallID and ToolName name the call.
type MessageStart struct {
	MessageID  string `json:"messageId"`
	Role       Role   `json:"role"`
	API        string `json:"api,omitempty"`
	Provider   string `json:"provider,omitempty"`
	Model      string `json:"model,omitempty"`
	ToolCallID string `json:"toolCallId,omitempty"`
	ToolName   string `json:"toolName,omitempty"`
}

// MessageEnd is a message with all its content. Interrupted closes a reply whose runner died or failed in the middle;
// it is not part of the transcript. Failure marks the reply that stands for a failed run; agent_end then names no other
// message. TerminationReason is the cause that cut off the reply, if the stop reason does not name it. FailureCode is
// the kind of failure of a failed reply, if its model reported it. Retryable alone decides whether the reply is
// retried.
type MessageEnd struct {
	MessageID         string            `json:"messageId"`
	Message           AnyMessage        `json:"message"`
	Interrupted       bool              `json:"interrupted,omitempty"`
	Failure           bool              `json:"failure,omitempty"`
	FailureCode       FailureCode       `json:"failureCode,omitempty"`
	Retryable         bool              `json:"retryable,omitempty"`
	TerminationReason TerminationReason `json:"terminationReason,omitempty"`
	DurationMs        int64             `json:"durationMs,omitempty"`
}

// ToolExecutionStart starts the execution of a call. Args are the raw arguments, as the model gave them. The sequence
// of this event makes the call's key (see [NewCallKey]). Nonce is random. It is part of the call's message ids, which
// nobody can guess and publish beforehand, and which are the same for a runner that takes the session over
// ([ToolRequest.IdempotencyKey]).
type ToolExecutionStart struct {
	ToolCallID string          `json:"toolCallId"`
	ToolName   string          `json:"toolName"`
	Args       json.RawMessage `json:"args"`
	Nonce      string          `json:"nonce,omitempty"`
}

// ToolExecutionEnd is the result of a call, after all hooks: exactly one for each call.
type ToolExecutionEnd struct {
	ToolCallID string     `json:"toolCallId"`
	ToolName   string     `json:"toolName"`
	Call       CallKey    `json:"call"`
	Result     ToolResult `json:"result"`
	IsError    bool       `json:"isError"`
	DurationMs int64      `json:"durationMs,omitempty"`
	Worker     string     `json:"worker,omitempty"`
}

// MarshalJSON never writes null for a list.
func (e *AgentEnd) MarshalJSON() ([]byte, error) {
	type plain AgentEnd
	p := plain(*e)
	p.Messages = notNil(p.Messages)
	return marshalPlain(p)
}

// MarshalJSON never writes null for a list.
func (e *TurnEnd) MarshalJSON() ([]byte, error) {
	type plain TurnEnd
	p := plain(*e)
	p.ToolResults = notNil(p.ToolResults)
	return marshalPlain(p)
}

// EventType returns "agent_start".
func (*AgentStart) EventType() EventType { return EventAgentStart }

// EventType returns "agent_end".
func (*AgentEnd) EventType() EventType { return EventAgentEnd }

// EventType returns "turn_start".
func (*TurnStart) EventType() EventType { return EventTurnStart }

// EventType returns "turn_end".
func (*TurnEnd) EventType() EventType { return EventTurnEnd }

// EventType returns "message_start".
func (*MessageStart) EventType() EventType { return EventMessageStart }

// EventType returns "message_end".
func (*MessageEnd) EventType() EventType { return EventMessageEnd }

// EventType returns "tool_execution_start".
func (*ToolExecutionStart) EventType() EventType { return EventToolExecutionStart }

// EventType returns "tool_execution_end".
func (*ToolExecutionEnd) EventType() EventType { return EventToolExecutionEnd }
