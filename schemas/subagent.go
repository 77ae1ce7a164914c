package schemas

import (
	"cmp"
	"strconv"
	"strings"
)

// A sub-agent is a session, the child, that a call of the tool agent in another session, the parent, has started
// (docs/agents.md). Its id is chosen by the parent's runner.

// SubagentPolicy limits the sub-agents of a profile's sessions. A child may follow its parent's profile, work in its
// parent's workspace and use its parent's model, and those that are listed here. A limit of zero is the default:
// only a session without the tool agent has no sub-agents.
type SubagentPolicy struct {
	MaxDepth   int        `json:"maxDepth,omitempty"`  // levels of sub-agents below a session that is not one itself
	MaxOpen    int        `json:"maxOpen,omitempty"`   // unfinished children of a session at once
	MaxPerRun  int        `json:"maxPerRun,omitempty"` // children that a run starts
	Profiles   []string   `json:"profiles,omitempty"`
	Models     []ModelRef `json:"models,omitempty"`
	Workspaces []string   `json:"workspaces,omitempty"`
}

// The default limits of a [SubagentPolicy].
const (
	DefaultSubagentDepth  = 2
	DefaultSubagentsOpen  = 8
	DefaultSubagentsOfRun = 32
)

// WithDefaults fills in the limits that are zero.
func (p SubagentPolicy) WithDefaults() SubagentPolicy {
	p.MaxDepth = cmp.Or(p.MaxDepth, DefaultSubagentDepth)
	p.MaxOpen = cmp.Or(p.MaxOpen, DefaultSubagentsOpen)
	p.MaxPerRun = cmp.Or(p.MaxPerRun, DefaultSubagentsOfRun)
	return p
}

// SubagentCall are the arguments of the tool agent. Budget is a share of what the parent may still use; 0 means a part
// equal to those of the other calls. Empty Profile, Model, Tools and Workspace are the parent's.
type SubagentCall struct {
	Prompt     string   `json:"prompt"`
	Name       string   `json:"name,omitempty"`
	Profile    string   `json:"profile,omitempty"`
	Model      string   `json:"model,omitempty"`
	Tools      []string `json:"tools,omitzero"`
	Workspace  string   `json:"workspace,omitempty"`
	Budget     float64  `json:"budget,omitempty"`
	Background bool     `json:"background,omitempty"`
	Join       bool     `json:"join,omitempty"`
}

// SubagentLink links a child to its parent: to the call Call of Session. Nonce is that of the call; without it the link
// is not accepted. Depth is the number of the child's ancestors, MaxDepth the largest number of ancestors that its own
// sub-agents, at any depth, may have.
type SubagentLink struct {
	Session  string  `json:"session"`
	Call     CallKey `json:"call"`
	Nonce    string  `json:"nonce"`
	Depth    int     `json:"depth"`
	MaxDepth int     `json:"maxDepth"`
}

// subagentID is the prefix of the ids of the commands between a parent and a child.
const subagentID = "subagent/"

// IsSubagentID reports whether an id is reserved for the commands that runners send between a parent and a child.
func IsSubagentID(id string) bool { return strings.HasPrefix(id, subagentID) }

// PromptID returns the id of the child's prompt.
func (l SubagentLink) PromptID() string {
	return subagentID + l.Session + "/" + string(l.Call) + "/" + l.Nonce
}

// AbortID returns the id of the command that aborts the child.
func (l SubagentLink) AbortID() string { return l.PromptID() + "/abort" }

// ResultID returns the id of the child's result, in the parent's inbox.
func (l SubagentLink) ResultID() string { return l.PromptID() + "/result" }

// SessionParent returns the parent in the form of queries.
func (l SubagentLink) SessionParent() *SessionParent {
	seq, _ := strconv.ParseUint(strings.TrimPrefix(string(l.Call), "c"), 10, 64) // 0 for what is no key
	return &SessionParent{Session: l.Session, Seq: seq, CallID: string(l.Call)}
}

// SubagentOf returns the link from which a [SubagentLink.PromptID] was made, without its depths. ok is false for any
// other id.
func SubagentOf(promptID string) (l SubagentLink, ok bool) {
	rest, ok := strings.CutPrefix(promptID, subagentID)
	parts := strings.Split(rest, "/")
	if !ok || len(parts) != 3 {
		return l, false
	}
	l = SubagentLink{Session: parts[0], Call: CallKey(parts[1]), Nonce: parts[2]}
	return l, CheckSession(l.Session) == nil && l.Nonce != ""
}

// SubagentSettings are the settings of a child's session, which override its profile. Tools are the names of those that
// it may have at most; nil leaves the choice to the profile. MaxTokens and MaxCost limit what the session uses, its own
// children included; zero is no limit.
type SubagentSettings struct {
	Name          string        `json:"name,omitempty"`
	Profile       string        `json:"profile,omitempty"`
	Model         *ModelRef     `json:"model,omitempty"`
	ThinkingLevel ThinkingLevel `json:"thinkingLevel,omitempty"`
	Tools         []string      `json:"tools,omitzero"`
	Workspace     *string       `json:"workspace,omitempty"`
	MaxTokens     int64         `json:"maxTokens,omitempty"`
	MaxCost       float64       `json:"maxCost,omitempty"`
}

// SubagentPrompt is the first command of a child.
type SubagentPrompt struct {
	Parent SubagentLink `json:"parent"`
	Text   string       `json:"text"`
	SubagentSettings
}

// SubagentAbort stops the run that the [SubagentPrompt] with the same link has started, or keeps it from starting.
type SubagentAbort struct {
	Parent SubagentLink `json:"parent"`
}

// SubagentResult reports the result of the child Session to the call that started it: exactly one for each child. Text
// is its last message; if the run failed or never started, IsError is set and Text is the reason. Usage is that of the
// child's session.
type SubagentResult struct {
	Call    CallKey           `json:"call"`
	Nonce   string            `json:"nonce"`
	Session string            `json:"session"`
	Text    string            `json:"text"`
	IsError bool              `json:"isError"`
	Reason  TerminationReason `json:"reason,omitempty"` // why its run ended; empty if it never started
	Usage   Usage             `json:"usage"`
}

// ID returns the id of the command with the result, in the inbox of the parent.
func (r SubagentResult) ID(parent string) string {
	return SubagentLink{Session: parent, Call: r.Call, Nonce: r.Nonce}.ResultID()
}

// SubagentStart is the event of a call that starts the child Session, whose prompt is sent next. If Background is set,
// the call is answered at once and the result comes as a follow-up; if Join is set, the run does not end before.
type SubagentStart struct {
	Call       CallKey `json:"call"`
	ToolCallID string  `json:"toolCallId"`
	Session    string  `json:"session"`
	Depth      int     `json:"depth"`
	MaxDepth   int     `json:"maxDepth"`
	Background bool    `json:"background,omitempty"`
	Join       bool    `json:"join,omitempty"`
	SubagentSettings
}

// SubagentAborted is the event of a child to which a [SubagentAbort] was sent.
type SubagentAborted struct {
	Call    CallKey `json:"call"`
	Session string  `json:"session"`
}

// SubagentEnd is the event of a child that has reported its result. From here on its usage is part of the session's,
// and of the current run's.
type SubagentEnd struct {
	Call    CallKey           `json:"call"`
	Session string            `json:"session"`
	IsError bool              `json:"isError"`
	Reason  TerminationReason `json:"reason,omitempty"`
	Usage   Usage             `json:"usage"`
}

// SubagentReport is the event, in the log of a child, of its result having been sent to its parent. Undelivered is the
// reason why it was not sent and never will be.
type SubagentReport struct {
	Session     string            `json:"session"` // the parent
	Call        CallKey           `json:"call"`
	IsError     bool              `json:"isError"`
	Reason      TerminationReason `json:"reason,omitempty"`
	Undelivered string            `json:"undelivered,omitempty"`
}

// CommandKind returns "subagent_prompt".
func (*SubagentPrompt) CommandKind() CommandKind { return CommandSubagentPrompt }

// CommandKind returns "subagent_abort".
func (*SubagentAbort) CommandKind() CommandKind { return CommandSubagentAbort }

// CommandKind returns "subagent_result".
func (*SubagentResult) CommandKind() CommandKind { return CommandSubagentResult }

// EventType returns "subagent_start".
func (*SubagentStart) EventType() EventType { return EventSubagentStart }

// EventType returns "subagent_abort".
func (*SubagentAborted) EventType() EventType { return EventSubagentAbort }

// EventType returns "subagent_end".
func (*SubagentEnd) EventType() EventType { return EventSubagentEnd }

// EventType returns "subagent_report".
func (*SubagentReport) EventType() EventType { return EventSubagentReport }
