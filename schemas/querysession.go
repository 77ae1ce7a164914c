package schemas

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// SessionState is the state of a session at its event Seq, as its log gives it. Model, ThinkingLevel, Profile and
// Workspace are those of its newest run; before the first run they are those that its settings have chosen. Messages
// counts the transcript. LastEnd is the end of its newest run. Leaf is the entry of the tree whose child the next entry
// will be, "" for the root.
type SessionState struct {
	Session       string         `json:"session"`
	Seq           uint64         `json:"seq"`
	Status        SessionStatus  `json:"status"`
	Name          string         `json:"name,omitempty"`
	Leaf          string         `json:"leaf,omitempty"`
	Model         *ModelRef      `json:"model,omitempty"`
	ThinkingLevel ThinkingLevel  `json:"thinkingLevel,omitempty"`
	Profile       string         `json:"profile,omitempty"`
	Workspace     string         `json:"workspace,omitempty"`
	Messages      int            `json:"messages"`
	Runs          int            `json:"runs"`
	Run           *RunState      `json:"run,omitempty"`
	Prompts       []QueuedInput  `json:"prompts,omitempty"`
	Steering      []QueuedInput  `json:"steering,omitempty"`
	FollowUp      []QueuedInput  `json:"followUp,omitempty"`
	Usage         Usage          `json:"usage"`
	LastEnd       *AgentEnd      `json:"lastEnd,omitempty"`
	ErrorMessage  string         `json:"errorMessage,omitempty"`
	Parent        *SessionParent `json:"parent,omitempty"`
	ContextUsage  *ContextUsage  `json:"contextUsage,omitempty"` // nil if the window is unknown
	Compacting    bool           `json:"compacting,omitempty"`   // a context or a branch is being summarized
}

// Queued describes the inputs in the session's queues, such as "1 prompt, 2 steers"; "" if there are none.
func (s SessionState) Queued() string {
	var parts []string
	for _, q := range []struct {
		inputs []QueuedInput
		what   string
	}{{s.Prompts, "prompt"}, {s.Steering, "steer"}, {s.FollowUp, "follow-up"}} {
		switch n := len(q.inputs); n {
		case 0:
		case 1:
			parts = append(parts, "1 "+q.what)
		default:
			parts = append(parts, strconv.Itoa(n)+" "+q.what+"s")
		}
	}
	return strings.Join(parts, ", ")
}

// RunState is the current run. CommandID is the command that started it. Streaming is the message that is being
// streamed. Retrying is true if a failed reply is about to be retried, Aborting if an abort has been requested.
type RunState struct {
	ID        string      `json:"id"`
	CommandID string      `json:"commandId,omitempty"`
	Started   time.Time   `json:"started"`
	Turns     int         `json:"turns"`
	TurnID    string      `json:"turnId,omitempty"`
	Streaming string      `json:"streaming,omitempty"`
	Retrying  bool        `json:"retrying,omitempty"`
	Aborting  bool        `json:"aborting,omitempty"`
	Calls     []CallState `json:"calls,omitempty"`
	Usage     Usage       `json:"usage"`
}

// CallState is a tool call of the current turn. Call is empty until the call has started.
type CallState struct {
	Call       CallKey   `json:"call,omitempty"`
	ToolCallID string    `json:"toolCallId"`
	ToolName   string    `json:"toolName"`
	Started    time.Time `json:"started,omitzero"`
	Waiting    bool      `json:"waiting,omitempty"` // for approval
	Ended      bool      `json:"ended,omitempty"`
	IsError    bool      `json:"isError,omitempty"`
}

// QueuedInput is an input in a queue. Text is the beginning of its text.
type QueuedInput struct {
	CommandID string      `json:"commandId"`
	Kind      CommandKind `json:"kind"`
	Text      string      `json:"text,omitempty"`
}

// MessagesQuery requests messages of a session's transcript: the newest, or those right before or after the message
// with an id. Limit is at most [MaxQueryLimit]; 0 is 100.
type MessagesQuery struct {
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	Limit  int    `json:"limit,omitempty"`
}

// MessagesPage has consecutive messages, in order, of the transcript at the event Seq. Older and Newer report whether
// there are more before and after them.
type MessagesPage struct {
	Session  string           `json:"session"`
	Seq      uint64           `json:"seq"`
	Messages []SessionMessage `json:"messages"`
	Older    bool             `json:"older,omitempty"`
	Newer    bool             `json:"newer,omitempty"`
}

// SessionMessage is a message of a transcript and its id. If the message does not fit into the answer, it is left out
// and Size is its size in bytes; the session's log has it.
type SessionMessage struct {
	ID      string          `json:"id"`
	Message json.RawMessage `json:"message,omitempty"`
	Size    int             `json:"size,omitempty"`
}

// SessionStats are statistics of a session up to its event Seq. ContextTokens is how much of ContextWindow, the window
// of Model in tokens, its newest reply used; 0 if unknown. ToolCalls counts calls that have ended, ToolErrors those
// that failed.
type SessionStats struct {
	Session       string    `json:"session"`
	Seq           uint64    `json:"seq"`
	Runs          int       `json:"runs"`
	Turns         int       `json:"turns"`
	Messages      int       `json:"messages"`
	ToolCalls     int       `json:"toolCalls"`
	ToolErrors    int       `json:"toolErrors"`
	Usage         Usage     `json:"usage"`
	Model         *ModelRef `json:"model,omitempty"`
	ContextTokens int64     `json:"contextTokens"`
	ContextWindow int64     `json:"contextWindow"`
}

// ToolsPage has the tools of a session's newest run, in the order of the model's requests. A session without a run has
// none. Seq is the sequence of its newest event.
type ToolsPage struct {
	Session string           `json:"session"`
	Seq     uint64           `json:"seq"`
	Tools   []ToolDefinition `json:"tools"`
	Next    string           `json:"next,omitempty"`
}
