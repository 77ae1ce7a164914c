package schemas

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"time"
)

// Profile is the named configuration of the sessions that follow it, which their own settings override. It is an entry
// of the bucket agent_profiles under its name. A change takes effect from a session's next run on. Absent members leave
// the choice to the runner.
type Profile struct {
	Description   string          `json:"description,omitempty"`
	Model         *ModelRef       `json:"model,omitempty"`
	Fallbacks     []ModelRef      `json:"fallbacks,omitzero"`
	ThinkingLevel ThinkingLevel   `json:"thinkingLevel,omitempty"`
	SystemPrompt  *string         `json:"systemPrompt,omitempty"`
	ToolExecution ExecutionMode   `json:"toolExecution,omitempty"`
	Tools         []string        `json:"tools,omitzero"`  // that a session may have; null is every tool
	Scopes        []string        `json:"scopes,omitzero"` // granted; "*" is every scope
	Workspace     string          `json:"workspace,omitempty"`
	Extensions    []string        `json:"extensionTools,omitzero"`
	Sandbox       *SandboxPolicy  `json:"sandbox,omitempty"`
	Limits        *Limits         `json:"limits,omitempty"` // non-zero limits override the runner's
	Budget        *ProfileBudget  `json:"budget,omitempty"`
	Approval      *ApprovalPolicy `json:"approval,omitempty"`
	Hooks         []HookRef       `json:"hooks,omitempty"`     // called after those of the runner
	Resources     *bool           `json:"resources,omitempty"` // false: without the workspace's Resources

	Compaction *CompactionPolicy `json:"compaction,omitempty"`
	Subagents  *SubagentPolicy   `json:"subagents,omitempty"`
}

// SandboxPolicy takes tools from the workers of a workspace, and from no others. If these do not serve a tool, the
// session does not have it.
type SandboxPolicy struct {
	Tools     []string `json:"tools"`
	Workspace string   `json:"workspace"`
}

// BudgetPeriod is how long a [ProfileBudget] lasts, by the calendar of UTC.
type BudgetPeriod string

// The periods of a budget; the zero value is for ever.
const (
	PerDay   BudgetPeriod = "day"
	PerMonth BudgetPeriod = "month"
)

// Name returns the name of the period that contains a time, as a subject token: 2026-11-21, 2026-11, or total.
func (p BudgetPeriod) Name(at time.Time) string {
	switch p {
	case PerDay:
		return at.UTC().Format(time.DateOnly)
	case PerMonth:
		return at.UTC().Format("2006-01")
	}
	return "total"
}

// The units that budgets are counted in.
const (
	SpentTokens       = "tokens"
	SpentMicrodollars = "microdollars"
)

// ProfileBudget limits what all sessions of a profile use together. MaxCost is in US dollars, WarnShare the share of
// the budget at which a [BudgetWarning] is emitted. Zero is no limit.
type ProfileBudget struct {
	MaxTokens int64        `json:"maxTokens,omitempty"`
	MaxCost   float64      `json:"maxCost,omitempty"`
	WarnShare float64      `json:"warnShare,omitempty"`
	Per       BudgetPeriod `json:"per,omitempty"`
}

// Limited reports whether the budget has a limit.
func (b ProfileBudget) Limited() bool { return b.MaxTokens > 0 || b.MaxCost > 0 }

// SetProfile makes the session follow a profile from the next run on; an empty name follows none.
type SetProfile struct {
	Profile string `json:"profile"`
}

// CommandKind returns "set_profile".
func (*SetProfile) CommandKind() CommandKind { return CommandSetProfile }

// ToolLayer lists the changes by one layer of the tool pipeline to a session's tools (docs/tools.md).
type ToolLayer struct {
	Name    string        `json:"name"`
	Added   []string      `json:"added,omitempty"`
	Changed []string      `json:"changed,omitempty"`
	Removed []ToolRemoval `json:"removed,omitempty"`
}

// ToolRemoval is a tool that a session does not have, and the reason.
type ToolRemoval struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// ParseProfile validates and decodes a profile. An error is a [*ValidationError] or the reason why it is not JSON. An
// object with members, none of which a profile has, is an error: something else was stored in place of a profile, and
// decoded as one it would have no limits.
func ParseProfile(payload []byte) (p Profile, err error) {
	if err := validate("profile", SchemaName{"profiles", "profile"}, payload); err != nil {
		return p, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(payload, &members); err != nil {
		return p, err
	}
	known := func(name string) bool { return profileMembers[name] }
	if len(members) > 0 && !slices.ContainsFunc(slices.Collect(maps.Keys(members)), known) {
		return p, &ValidationError{What: "profile", Problems: []string{"payload: it has no member of a profile"}}
	}
	err = json.Unmarshal(payload, &p)
	return p, err
}

// profileMembers are the members that a profile may have.
var profileMembers = func() map[string]bool {
	members := map[string]bool{}
	addMembers(members, reflect.TypeFor[Profile]())
	return members
}()
