package loop

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// Child is a sub-agent that the session has begun and that has not sent its result.
type Child struct {
	Start     schemas.SubagentStart `json:"start"`
	Nonce     string                `json:"nonce"`
	StartedAt time.Time             `json:"startedAt"`
	Abort     ChildAbort            `json:"abort,omitempty"`
}

// ChildAbort is the state of the parent's abort of a child.
type ChildAbort string

// The states of an abort; the zero value means that there is none.
const (
	AbortOwed ChildAbort = "owed" // the abort has yet to be sent
	AbortSent ChildAbort = "sent"
)

// AbortSubagent tells the driver to have a [schemas.SubagentAbort] with the link stored in the inbox of Session, and to
// append Then.
type AbortSubagent struct {
	Session string
	Link    schemas.SubagentLink
	Then    *schemas.SubagentAborted
}

func (AbortSubagent) step() {}

// Child returns the sub-agent of the call that is at work, or nil.
func (s *State) Child(call schemas.CallKey) *Child {
	if i := slices.IndexFunc(s.Children, func(c Child) bool { return c.Start.Call == call }); i >= 0 {
		return &s.Children[i]
	}
	return nil
}

// Answers reports whether a result is that of a sub-agent at work.
func (s *State) Answers(r *schemas.SubagentResult) bool {
	c := s.Child(r.Call)
	return c != nil && c.Nonce == r.Nonce && c.Start.Session == r.Session
}

// Link returns what the child's session knows its parent by.
func (c *Child) Link(parent string) schemas.SubagentLink {
	return schemas.SubagentLink{
		Session: parent, Call: c.Start.Call, Nonce: c.Nonce, Depth: c.Start.Depth, MaxDepth: c.Start.MaxDepth,
	}
}

// applyToFamily folds the events between the session, its sub-agents and its parent.
func (s *State) applyToFamily(e schemas.Event) {
	switch d := e.Data.(type) {
	case *schemas.SubagentStart:
		if call := s.Call(d.Call); call != nil && call.Subagent == "" {
			call.Subagent = d.Session
			s.Children = append(s.Children[:len(s.Children):len(s.Children)],
				Child{Start: *d, Nonce: call.Nonce, StartedAt: e.Time})
			s.Run.Children++
		}
	case *schemas.SubagentAborted:
		s.markChildren(func(c *Child) {
			if c.Start.Call == d.Call {
				c.Abort = AbortSent
			}
		})
	case *schemas.SubagentEnd:
		s.paid(d.EventType(), e.CausationID)
		s.endChild(d)
	case *schemas.SubagentReport:
		if s.Parent != nil {
			p := *s.Parent
			p.Reported, p.Text = true, ""
			s.Parent = &p
		}
	}
}

func (s *State) endChild(d *schemas.SubagentEnd) {
	if s.Child(d.Call) == nil {
		return
	}
	s.Children = slices.DeleteFunc(slices.Clone(s.Children), func(c Child) bool { return c.Start.Call == d.Call })
	s.Usage = s.Usage.Add(d.Usage)
	if s.Run != nil {
		s.Run.Usage = s.Run.Usage.Add(d.Usage)
	}
}

func (s *State) markChildren(f func(c *Child)) {
	s.Children = slices.Clone(s.Children)
	for i := range s.Children {
		f(&s.Children[i])
	}
}

// abortChildren owes an abort to every sub-agent that has none.
func (s *State) abortChildren() {
	if s.works() {
		s.markChildren(func(c *Child) {
			if c.Abort == "" {
				c.Abort = AbortOwed
			}
		})
	}
}

// works reports whether a sub-agent without an abort is at work.
func (s *State) works() bool {
	return slices.ContainsFunc(s.Children, func(c Child) bool { return c.Abort == "" })
}

// toAbort returns a child whose abort has yet to be sent, or nil.
func (s *State) toAbort() *Child {
	if i := slices.IndexFunc(s.Children, func(c Child) bool { return c.Abort == AbortOwed }); i >= 0 {
		return &s.Children[i]
	}
	return nil
}

func (c *Child) abort(s *State) AbortSubagent {
	return AbortSubagent{
		Session: c.Start.Session, Link: c.Link(s.Session),
		Then: &schemas.SubagentAborted{Call: c.Start.Call, Session: c.Start.Session},
	}
}

// joins reports whether the run waits, at its end, for sub-agents in the background. A sub-agent's run waits for all.
func (s *State) joins() bool {
	all := s.runsForParent(s.Run)
	return slices.ContainsFunc(s.Children, func(c Child) bool {
		return c.Abort == "" && c.Start.Background && (all || c.Start.Join)
	})
}

// SubagentEnded returns the event that ends the child with its result.
func SubagentEnded(r *schemas.SubagentResult) *schemas.SubagentEnd {
	return &schemas.SubagentEnd{Call: r.Call, Session: r.Session, IsError: r.IsError, Reason: r.Reason, Usage: r.Usage}
}

// subagentResult returns the events of the result of a child whose call has ended: the result is a follow-up, unless
// the child was aborted or the call was answered for the child.
func (a acceptance) subagentResult(d *schemas.SubagentResult) []schemas.EventData {
	if !a.s.Answers(d) {
		return nil
	}
	c, end := a.s.Child(d.Call), SubagentEnded(d)
	switch {
	case !c.Start.Background || c.Abort != "":
		return a.applied(end)
	case a.s.Run != nil:
		return a.accepted(schemas.QueueFollowUp, end)
	}
	return a.accepted(schemas.QueuePrompts, end)
}

// brings returns the content of a follow-up with a result.
func (s *State) brings(r *schemas.SubagentResult) string {
	who, has := "session "+r.Session, "has finished"
	if c := s.Child(r.Call); c != nil && c.Start.Name != "" {
		who = c.Start.Name + ", " + who
	}
	if r.IsError {
		has = "has failed"
	}
	return "The sub-agent (" + who + ") " + has + ":\n\n" + r.Text
}

// Subagent returns the event with which a call of the turn begins a sub-agent, or the text to refuse the call with.
func (s *State) Subagent(call *Call, args schemas.SubagentCall) (start *schemas.SubagentStart, refusal string) {
	policy, depth := s.Config.Subagents.WithDefaults(), 1
	if s.Parent != nil {
		depth, policy.MaxDepth = s.Parent.Link.Depth+1, min(policy.MaxDepth, s.Parent.Link.MaxDepth)
	}
	settings, refusal := s.subagentSettings(policy, args)
	switch {
	case refusal != "":
		return nil, refusal
	case depth > policy.MaxDepth:
		return nil, fmt.Sprintf("Sub-agents may be nested %d deep at most", policy.MaxDepth)
	case len(s.Children) >= policy.MaxOpen:
		return nil, fmt.Sprintf("No more than %d sub-agents may be at work: wait for one of them", policy.MaxOpen)
	case s.Run.Children >= policy.MaxPerRun:
		return nil, fmt.Sprintf("A run may begin no more than %d sub-agents", policy.MaxPerRun)
	}
	var ok bool
	settings.MaxTokens, settings.MaxCost, ok = s.share(cmp.Or(args.Budget, 1/float64(s.agentCalls()+1)))
	if !ok {
		return nil, "No budget is left for a sub-agent"
	}
	id := schemas.CallSession(s.Session, call.Key, s.Session+"/"+string(call.Key)+"/"+call.Nonce)
	return &schemas.SubagentStart{
		Call: call.Key, ToolCallID: call.ToolCall.ID, Session: id, Depth: depth, MaxDepth: policy.MaxDepth,
		Background: args.Background, Join: args.Background && args.Join, SubagentSettings: settings,
	}, ""
}

// subagentSettings returns the parent's settings with what the call sets and the policy allows.
func (s *State) subagentSettings(p schemas.SubagentPolicy, args schemas.SubagentCall) (
	set schemas.SubagentSettings, refusal string,
) {
	config := s.Config
	set = schemas.SubagentSettings{Name: args.Name, Profile: cmp.Or(args.Profile, config.Profile), Tools: args.Tools}
	same := set.Profile == config.Profile
	switch {
	case !same && !slices.Contains(p.Profiles, set.Profile):
		return set, fmt.Sprintf("A sub-agent may not follow the profile %q", set.Profile)
	case args.Workspace != "" && (!same || args.Workspace != config.Workspace) &&
		!slices.Contains(p.Workspaces, args.Workspace): // another profile's rights hold in its own workspace
		return set, fmt.Sprintf("A sub-agent may not work in the workspace %q", args.Workspace)
	}
	for _, name := range args.Tools {
		if same && s.Definition(name) == nil {
			return set, fmt.Sprintf("A sub-agent cannot have the tool %q, which this session has not", name)
		}
	}
	if args.Model != "" {
		models := slices.Concat([]schemas.ModelRef{config.Model}, config.Fallbacks, p.Models)
		i := slices.IndexFunc(models, func(m schemas.ModelRef) bool { return m.String() == args.Model || m.ID == args.Model })
		if i < 0 {
			return set, fmt.Sprintf("A sub-agent may not use the model %q", args.Model)
		}
		set.Model = &models[i]
	}
	switch {
	case args.Workspace != "":
		set.Workspace = &args.Workspace
	case same:
		set.Workspace = s.Settings.Workspace
	}
	if same {
		set.ThinkingLevel = s.Settings.ThinkingLevel
		if set.Model == nil {
			set.Model = s.Settings.Model
		}
		if set.Tools == nil && s.Settings.ToolsSet {
			set.Tools = s.Settings.Tools
		}
	}
	return set, ""
}
