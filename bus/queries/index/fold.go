package index

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// An entry keeps at most maxWaiting calls that wait for approval, the first maxDetailed of them with their arguments
// and reasons, so that it fits a message of the bucket whatever a model requests in one reply.
const (
	maxWaiting  = 2048
	maxDetailed = 16
	maxArgs     = 1 << 10
)

// Apply folds the next event into the entry. It reports whether the event was the next one; if not, it changes
// nothing.
func (e *Entry) Apply(ev schemas.Event) bool {
	s := &e.Summary
	if ev.Seq != s.Seq+1 {
		return false
	}
	if s.Seq = ev.Seq; ev.Seq == 1 {
		s.Session, s.Created = ev.Session, ev.Time
	}
	if s.LastActivity = ev.Time; s.Created.IsZero() {
		s.Created = ev.Time
	}
	switch d := ev.Data.(type) {
	case *schemas.AgentStart:
		e.start(d)
	case *schemas.AgentEnd:
		e.endTurn()
		e.Run, s.Reason, s.Error = false, d.TerminationReason, cut(d.ErrorMessage, maxText)
	case *schemas.TurnStart:
		s.Turns++
	case *schemas.TurnEnd:
		e.endTurn()
	case *schemas.MessageStart:
		if d.Role == schemas.RoleAssistant && (d.Model != "" || d.Provider != "" || d.API != "") {
			e.Streaming = d.MessageID
		}
	case *schemas.MessageEnd:
		e.message(d)
	case *schemas.SessionBranched:
		s.Parent = &schemas.SessionParent{Session: d.Session, Seq: d.Seq}
		for _, m := range d.Messages {
			e.said(m)
		}
	case *schemas.ModelFallback:
		s.Model = new(d.To)
	case *schemas.Name:
		e.named(d.Name)
	case *schemas.SubagentStart:
		e.Subagents++
	case *schemas.SubagentEnd:
		e.Subagents = max(e.Subagents-1, 0) // the entry may be of a version that did not count
		s.Usage = s.Usage.Add(d.Usage)
	case *schemas.SummaryEnd:
		if reply, ok := d.Message.Message.(*schemas.AssistantMessage); ok {
			s.Usage = s.Usage.Add(reply.Usage)
		}
	case *schemas.CompactionStart:
		e.Summing = cmp.Or(d.CommandID, "auto")
	case *schemas.CompactionEnd:
		e.Summing = ""
		if d.TokensAfter > 0 {
			e.ContextTokens = d.TokensAfter
		}
	case *schemas.Leaf, *schemas.BranchSummaryEnd:
		e.Summing = ""
	case *schemas.CommandRejected:
		if d.CommandID == e.Summing {
			e.Summing = ""
		}
	default:
		e.applyCall(ev.Time, ev.Seq, ev.Data)
	}
	s.Approvals = len(e.Waiting)
	s.Status = e.status()
	return true
}

func (e *Entry) start(d *schemas.AgentStart) {
	s := &e.Summary
	s.Runs++
	e.Run, s.Reason, s.Error = true, "", ""
	s.Queued = max(s.Queued-len(d.Inputs), 0)
	if d.Config != nil {
		s.Model, s.Profile, s.Workspace = new(d.Config.Model), d.Config.Profile, d.Config.Workspace
	}
}

// endTurn clears the calls: no call outlives its turn.
func (e *Entry) endTurn() {
	e.Calls, e.Streaming, e.Waiting = 0, "", nil
}

// message processes the end of a message, unless the message was cut off and is not part of the transcript.
func (e *Entry) message(d *schemas.MessageEnd) {
	reply, ok := d.Message.Message.(*schemas.AssistantMessage)
	ok = ok && e.Streaming == d.MessageID
	if ok {
		e.Streaming = ""
	}
	if d.Interrupted {
		return
	}
	e.said(d.Message.Message)
	if !ok {
		return
	}
	e.Summary.Usage = e.Summary.Usage.Add(reply.Usage)
}

// said counts a message of the transcript and keeps what lists show of it.
func (e *Entry) said(m schemas.Message) {
	s := &e.Summary
	e.Messages++
	var text string
	switch m := m.(type) {
	case *schemas.UserMessage:
		title := &s.Title
		if e.Named {
			title = &e.Said
		}
		if text = cut(m.Content.JoinText(), maxText); *title == "" {
			*title = cut(text, maxTitle)
		}
	case *schemas.AssistantMessage:
		text = cut(m.Content.JoinText(), maxText)
		if used := contextOf(m.Usage); used > 0 {
			e.ContextTokens = used
		}
	}
	if text != "" {
		s.LastMessage, s.LastRole = text, m.MessageRole()
	}
}

// named processes a change of the session's name.
func (e *Entry) named(name string) {
	switch s := &e.Summary; {
	case name != "" && e.Named:
		s.Title = cut(name, maxTitle)
	case name != "":
		e.Named, e.Said, s.Title = true, s.Title, cut(name, maxTitle)
	case e.Named:
		e.Named, e.Said, s.Title = false, "", e.Said
	}
}

// contextOf returns how many tokens of the model's window a reply used.
func contextOf(u schemas.Usage) int64 {
	return max(u.TotalTokens, u.Input+u.Output+u.CacheRead+u.CacheWrite)
}

func (e *Entry) applyCall(at time.Time, seq uint64, data schemas.EventData) {
	s := &e.Summary
	switch d := data.(type) {
	case *schemas.ToolExecutionStart:
		e.Calls++
	case *schemas.ToolExecutionEnd:
		e.Calls = max(e.Calls-1, 0)
		e.resolve(d.Call)
		if e.ToolCalls++; d.IsError {
			e.ToolErrors++
		}
	case *schemas.ApprovalRequested:
		e.ask(at, seq, d)
	case *schemas.ApprovalResolved:
		e.resolve(d.Call)
	case *schemas.CommandAccepted:
		if d.Queue != "" {
			s.Queued++
		}
		if d.Kind == schemas.CommandCompact || d.Kind == schemas.CommandNavigate {
			e.Summing = d.CommandID
		}
		if d.Kind == schemas.CommandSubagentPrompt {
			e.begunBy(d.Data)
		}
	case *schemas.HookDecision:
		if d.Handled { // the input starts no run
			s.Queued = max(s.Queued-1, 0)
		}
	case *schemas.CommandSuperseded, *schemas.CommandWithdrawn:
		s.Queued = max(s.Queued-1, 0)
	case *schemas.QueueUpdate:
		s.Queued = len(d.Steering) + len(d.FollowUp) + len(d.Prompts)
	}
}

// begunBy records whose sub-agent the session is, and its name.
func (e *Entry) begunBy(payload json.RawMessage) {
	var prompt schemas.SubagentPrompt
	if json.Unmarshal(payload, &prompt) == nil {
		e.Summary.Parent = prompt.Parent.SessionParent()
		e.named(prompt.Name)
	}
}

// ask adds a call to those that wait.
func (e *Entry) ask(at time.Time, seq uint64, d *schemas.ApprovalRequested) {
	if len(e.Waiting) >= maxWaiting {
		return
	}
	most := maxArgs
	if len(e.Waiting) >= maxDetailed {
		most = 0
	}
	p := pending(e.Summary.Session, seq, at, d, most)
	p.ToolCallID, p.ToolName = cut(p.ToolCallID, maxName), cut(p.ToolName, maxName)
	p.By = cut(p.By, maxName)
	if p.Reason = cut(p.Reason, maxText); most == 0 {
		p.Reason = ""
	}
	e.Waiting = append(e.Waiting, p)
}

// resolve removes a call from those that wait.
func (e *Entry) resolve(call schemas.CallKey) {
	e.Waiting = slices.DeleteFunc(e.Waiting, func(p schemas.PendingApproval) bool { return p.Call == call })
}

// pending describes a call that has been waiting for approval since an event. It omits arguments of more than most
// bytes.
func pending(session string, seq uint64, at time.Time, d *schemas.ApprovalRequested, most int) schemas.PendingApproval {
	p := schemas.PendingApproval{
		Session: session, Seq: seq, Call: d.Call, ToolCallID: d.ToolCallID, ToolName: d.ToolName, Digest: d.Digest,
		Reason: d.Reason, By: d.By, Requested: at,
	}
	if len(d.Args) > most {
		p.ArgsSize = len(d.Args)
	} else {
		p.Args = slices.Clone(d.Args)
	}
	if d.TimeoutMs > 0 {
		p.Expires = new(schemas.After(at, d.TimeoutMs))
	}
	return p
}

// status returns what the session is doing.
func (e *Entry) status() schemas.SessionStatus {
	switch {
	case e.Run && e.Summary.Approvals > 0:
		return schemas.SessionWaitingForApproval
	case e.Run && e.Calls > 0:
		return schemas.SessionWaitingForTools
	case e.Run || e.Summing != "":
		return schemas.SessionRunning
	}
	if e.Summary.Reason.Failed() {
		return schemas.SessionFailed
	}
	return schemas.SessionIdle
}
