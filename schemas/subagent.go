package schemas

import (
	"cmp"
	"strconv"
	"strings"
)

// A sub-agent is a session, the child, that a call of the tool agent in another session, the parent, has begun
// (docs/agents.md). Its id is chosen by the parent's runner.

// SubagentPolicy says what the sub-agents of a profile's sessions may be. A child may follow its parent's profile, in
// its parent's workspace, use its parent's model, and besides what is listed here. A limit of zero is the default.
type SubagentPolicy struct {
	MaxDepth   int        `json:"maxDepth,omitempty"`  // of sessions below one that nobody has begun as a child
	MaxOpen    int        `json:"maxOpen,omitempty"`   // children of a session at once
	MaxPerRun  int        `json:"maxPerRun,omitempty"` // children that a run begins
	Profiles   []string   `json:"profiles,omitempty"`
	Models     []ModelRef `json:"models,omitempty"`
	Workspaces []string   `json:"workspaces,omitempty"`
}

// The limits of a [SubagentPolicy] that says nothing.
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

// SubagentCall are the arguments of the tool agent. Budget is a share of what the parent may still use, 0 for a part
// that is equal to those of the other calls. Profile, Model, Tools and Workspace, where they are empty, are the
// parent's.
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

// SubagentLink says whose child a session is: of the call Call of Session. Nonce is the call's; without it nobody is
// believed. Depth is how many sessions are above the child, MaxDepth how many may be above any below it.
type SubagentLink struct {
	Session  string  `json:"session"`
	Call     CallKey `json:"call"`
	Nonce    string  `json:"nonce"`
	Depth    int     `json:"depth"`
	MaxDepth int     `json:"maxDepth"`
}

// subagentID begins the ids of the commands between a parent and a child.
const subagentID = "subagent/"

// IsSubagentID reports whether an id is one that only a runner gives a command.
func IsSubagentID(id string) bool { return strings.HasPrefix(id, subagentID) }

// PromptID is the id of the child's prompt.
func (l SubagentLink) PromptID() string {
	return subagentID + l.Session + "/" + string(l.Call) + "/" + l.Nonce
}

// AbortID is the id of the command that aborts the child.
func (l SubagentLink) AbortID() string { return l.PromptID() + "/abort" }

// ResultID is the id of the child's result, in the parent's inbox.
func (l SubagentLink) ResultID() string { return l.PromptID() + "/result" }

// SessionParent is what queries say of the parent.
func (l SubagentLink) SessionParent() *SessionParent {
	seq, _ := strconv.ParseUint(strings.TrimPrefix(string(l.Call), "c"), 10, 64) // 0 for what is no key
	return &SessionParent{Session: l.Session, Seq: seq, CallID: string(l.Call)}
}

// SubagentOf returns the link that a [SubagentLink.PromptID] is made of, without its depths; false where it is none.
func SubagentOf(promptID string) (l SubagentLink, ok bool) {
	rest, ok := strings.CutPrefix(promptID, subagentID)
	parts := strings.Split(rest, "/")
	if !ok || len(parts) != 3 {
		return l, false
	}
	l = SubagentLink{Session: parts[0], Call: CallKey(parts[1]), Nonce: parts[2]}
	return l, CheckSession(l.Session) == nil && l.Nonce != ""
}

// SubagentSettings are what a child is driven with beside its profile: the settings of its session. Tools are the
// names of those it has at most; nil leaves the choice to the profile. MaxTokens and MaxCost limit what the session
// uses, its own children included; zero is off.
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

// SubagentAbort ends the run that the [SubagentPrompt] with the same link has begun, or keeps it from beginning.
type SubagentAbort struct {
	Parent SubagentLink `json:"parent"`
}

// SubagentResult is the one answer of the child Session to the call that began it. Text is its last message; where the
// run failed, or never began, IsError is set and Text says why. Usage is what the child's session has used.
type SubagentResult struct {
	Call    CallKey           `json:"call"`
	Nonce   string            `json:"nonce"`
	Session string            `json:"session"`
	Text    string            `json:"text"`
	IsError bool              `json:"isError"`
	Reason  TerminationReason `json:"reason,omitempty"` // of its run; none where that never began
	Usage   Usage             `json:"usage"`
}

// ID is the id of the command with the result, in the inbox of the parent.
func (r SubagentResult) ID(parent string) string {
	return SubagentLink{Session: parent, Call: r.Call, Nonce: r.Nonce}.ResultID()
}

// SubagentStart says that a call begins the child Session, which is sent its prompt next. Background says that the call
// is answered at once and the result comes as a follow-up, Join that the run does not end before.
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

// SubagentAborted says that a child has been sent its [SubagentAbort].
type SubagentAborted struct {
	Call    CallKey `json:"call"`
	Session string  `json:"session"`
}

// SubagentEnd says that a child has given its result. From here on its usage counts as the session's, and as that of
// the run under way.
type SubagentEnd struct {
	Call    CallKey           `json:"call"`
	Session string            `json:"session"`
	IsError bool              `json:"isError"`
	Reason  TerminationReason `json:"reason,omitempty"`
	Usage   Usage             `json:"usage"`
}

// SubagentReport says, in the log of a child, that its parent has been sent the result. Undelivered says why it has
// not, and never will be.
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
