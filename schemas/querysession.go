package schemas

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
)

// SessionState is what a session's log comes to at its event Seq. Model, ThinkingLevel, Profile and Workspace are those
// of its newest run where Run is set or it has run, else what its settings have chosen. Messages counts the transcript.
// LastEnd is the end of its newest run. Leaf is the entry of the tree that the next one will be a child of, "" for the
// root.
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
	ContextUsage  *ContextUsage  `json:"contextUsage,omitempty"` // nil where the window is not known
	Compacting    bool           `json:"compacting,omitempty"`   // or a branch is being summed up
}

// Queued says in words what waits in the session's queues, such as "1 prompt, 2 steers"; "" if nothing does.
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

// RunState is a run under way. CommandID is the command that began it. Streaming is the message that is being streamed,
// Retry the wait before the model is asked again. Aborting says that the run has been asked to end.
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

// CallState is a tool call of the turn under way. Call is empty until it has begun.
type CallState struct {
	Call       CallKey   `json:"call,omitempty"`
	ToolCallID string    `json:"toolCallId"`
	ToolName   string    `json:"toolName"`
	Started    time.Time `json:"started,omitzero"`
	Waiting    bool      `json:"waiting,omitempty"` // for approval
	Ended      bool      `json:"ended,omitempty"`
	IsError    bool      `json:"isError,omitempty"`
}

// QueuedInput is an input that waits. Text is the beginning of what it says.
type QueuedInput struct {
	CommandID string      `json:"commandId"`
	Kind      CommandKind `json:"kind"`
	Text      string      `json:"text,omitempty"`
}

// MessagesQuery asks for messages of a session's transcript: the newest, or those right before or after the message
// with an id. Limit is at most [MaxQueryLimit]; 0 is 100.
type MessagesQuery struct {
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	Limit  int    `json:"limit,omitempty"`
}

// MessagesPage has messages that follow one another, in order, of the transcript at the event Seq. Older and Newer say
// that there are more before and after them.
type MessagesPage struct {
	Session  string           `json:"session"`
	Seq      uint64           `json:"seq"`
	Messages []SessionMessage `json:"messages"`
	Older    bool             `json:"older,omitempty"`
	Newer    bool             `json:"newer,omitempty"`
}

// SessionMessage is a message of a transcript and its id. Where it would not fit the answer, Message is left out and
// Size is its size in bytes; the session's log has it.
type SessionMessage struct {
	ID      string          `json:"id"`
	Message json.RawMessage `json:"message,omitempty"`
	Size    int             `json:"size,omitempty"`
}

// SessionStats count what a session has used up to its event Seq. ContextTokens is what its newest reply filled of
// ContextWindow, the window of Model in tokens; 0 is unknown. ToolCalls counts calls that have ended, ToolErrors those
// of them that were answered with an error.
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

// ToolsPage has the tools of a session's newest run, in the order in which its model gets them. A session that
// has not run has none. Seq is the sequence of its newest event.
type ToolsPage struct {
	Session string           `json:"session"`
	Seq     uint64           `json:"seq"`
	Tools   []ToolDefinition `json:"tools"`
	Next    string           `json:"next,omitempty"`
}
