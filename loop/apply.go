package loop

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/loopbus/loopbus/schemas"
)

// Apply folds the next event into the state. It is total: the only error is for an event of another session or with a
// sequence other than Seq+1, and then nothing changes. An event that does not fit the state, which no driver of this
// module writes, changes only Seq and Tree.
func (s *State) Apply(e schemas.Event) error {
	if e.Seq != s.Seq+1 || s.Session != "" && e.Session != s.Session {
		return fmt.Errorf("loop: event %s after %s/%d", e.ID(), s.Session, s.Seq)
	}
	if s.Session, s.Seq = e.Session, e.Seq; s.idle() {
		s.Known.forget()
	}
	s.apply(e)
	s.Tree.Apply(e)
	return nil
}

func (s *State) apply(e schemas.Event) {
	switch d := e.Data.(type) {
	case *schemas.CommandAccepted:
		s.acceptCommand(e, d)
	case *schemas.CommandApplied:
		s.commandApplied(d)
	case *schemas.CommandRejected:
		s.know(d.CommandID, d.InboxPosition)
		s.paid(d.EventType(), d.CommandID)
		s.gaveUp(d.CommandID)
	case *schemas.CommandSuperseded:
		s.paid(d.EventType(), d.CommandID)
		s.withdraw(d.CommandID)
		s.neverBegan(d.CommandID, textSuperseded)
	case *schemas.CommandWithdrawn:
		s.paid(d.EventType(), d.CommandID)
		s.withdraw(d.CommandID)
		s.neverBegan(d.CommandID, textWithdrawn)
	case *schemas.ApprovalResolved:
		s.paid(d.EventType(), string(d.Call))
		s.approvalResolved(d)
	case *schemas.QueueUpdate:
		s.removeInputs(d.Taken)
	case *schemas.TranscriptReplaced:
		s.replaceTranscript(d)
	case *schemas.SessionBranched:
		s.branch(d)
	case *schemas.HookDecision:
		s.hookDecision(d)
	case *schemas.AgentStart:
		s.startRun(e, d)
	case *schemas.Leaf, *schemas.Label, *schemas.Name, *schemas.Custom, *schemas.AddMessage:
		s.applyToTree(e)
	case *schemas.CompactionStart:
		s.compactionStart(e, d)
	case *schemas.CompactionEnd:
		s.compactionEnd(e, d)
	case *schemas.BranchSummaryStart:
		s.branchSummaryStart(e, d)
	case *schemas.BranchSummaryEnd:
		s.branchSummaryEnd(d)
	case *schemas.SummaryEnd:
		s.summaryEnd(e, d)
	case *schemas.SubagentStart, *schemas.SubagentAborted, *schemas.SubagentEnd, *schemas.SubagentReport:
		s.applyToFamily(e)
	default:
		if s.Run != nil {
			s.applyToRun(s.Run, e)
		}
	}
}

// applyToTree folds the events that change the session's tree outside a run.
func (s *State) applyToTree(e schemas.Event) {
	s.paid(e.Data.EventType(), e.CausationID)
	switch d := e.Data.(type) {
	case *schemas.Leaf:
		s.moveLeaf(e, d)
	case *schemas.Label:
		s.setLabel(d)
	case *schemas.Name:
		s.Name = d.Name
	case *schemas.AddMessage:
		s.addEntry(entryID(e.Seq), customMessage(e, d))
	}
}

func (s *State) know(id string, at schemas.InboxPosition) { s.Known.add(id, at) }

func (s *State) acceptCommand(e schemas.Event, d *schemas.CommandAccepted) {
	data, err := schemas.DecodeCommandData(d.Kind, orEmpty(d.Data))
	switch {
	case d.Follows != nil:
		s.owe(d)
	case err == nil:
		s.oweFrozen(d, data)
	}
	s.know(d.CommandID, d.InboxPosition)
	if err != nil {
		return // a kind of a newer version: its outcome is in the log, its effect is unknown here
	}
	s.Settings.bind(data)
	if p, ok := data.(*schemas.SubagentPrompt); ok {
		s.becomeSubagent(p)
	}
	if in, ok := s.asInput(e, d, data); ok {
		s.enqueue(d.Queue, in)
		return
	}
	switch c := data.(type) {
	case *schemas.Abort:
		s.requestAbort(&Abort{CommandID: d.CommandID, Reason: schemas.EndAbort})
	case *schemas.SubagentAbort:
		if s.Parent != nil && s.Run != nil && s.Run.Command == s.Parent.Link.PromptID() {
			s.requestAbort(&Abort{CommandID: d.CommandID, Reason: schemas.EndAbort})
		}
	case *schemas.Navigate:
		s.Navigating = &Navigation{CommandID: d.CommandID, Navigate: *c}
	case *schemas.Compact:
		s.Compacting = &Compacting{Start: schemas.CompactionStart{
			Reason: schemas.CompactManual, CommandID: d.CommandID, CustomInstructions: c.CustomInstructions,
		}}
	case *schemas.Timer:
		if s.Run != nil && c.RunID == s.Run.ID && c.Name == schemas.TimerRunDeadline {
			s.requestAbort(&Abort{CommandID: d.CommandID, Reason: schemas.TimeoutRun})
		}
	default:
		s.Settings.apply(data)
	}
}

func orEmpty(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("{}")
	}
	return raw
}

// requestAbort records the first request only, because it is the reason why the run ends. Without a run it aborts the
// summary under way.
func (s *State) requestAbort(a *Abort) {
	s.abortChildren()
	switch {
	case s.Run != nil && s.Run.Abort == nil:
		s.Run.Abort = a
	case s.Run != nil:
	case s.Compacting != nil:
		s.Compacting.Abort = a
	case s.Navigating != nil:
		s.Navigating.Abort = a
	}
}

// Clone returns a deep copy of the settings.
func (t Settings) Clone() Settings {
	t.Model, t.SystemPrompt, t.Workspace = own(t.Model), own(t.SystemPrompt), own(t.Workspace)
	t.Fallbacks, t.Tools = slices.Clone(t.Fallbacks), slices.Clone(t.Tools)
	return t
}

func own[T any](p *T) *T {
	if p == nil {
		return nil
	}
	return new(*p)
}

// bind records the client that a command binds the session to, if it does.
func (t *Settings) bind(data schemas.CommandData) {
	var b schemas.Binding
	switch c := data.(type) {
	case *schemas.Prompt:
		b = c.Binding
	case *schemas.Continue:
		b = c.Binding
	}
	if b.Channel != "" {
		t.Channel, t.ChannelOnly = b.Channel, b.ChannelOnly
	}
}

func (t *Settings) apply(data schemas.CommandData) {
	switch c := data.(type) {
	case *schemas.SetModel:
		t.Model = &c.Model
		if c.Fallbacks != nil {
			t.Fallbacks = c.Fallbacks
		}
	case *schemas.SetThinkingLevel:
		t.ThinkingLevel = c.ThinkingLevel
	case *schemas.SetSystemPrompt:
		t.SystemPrompt = &c.SystemPrompt
	case *schemas.SetTools:
		t.ToolsSet, t.Tools = true, c.Tools
	case *schemas.SetWorkspace:
		t.Workspace = &c.Workspace
	case *schemas.SetProfile:
		t.Profile = c.Profile
	case *schemas.SetModes:
		t.SteeringMode = cmp.Or(c.SteeringMode, t.SteeringMode)
		t.FollowUpMode = cmp.Or(c.FollowUpMode, t.FollowUpMode)
		t.ToolExecution = cmp.Or(c.ToolExecution, t.ToolExecution)
	}
}

func (s *State) replaceTranscript(d *schemas.TranscriptReplaced) {
	if s.Run != nil && !s.Run.Detached { // the run continues with its own copy
		s.Run.Context, s.Run.Detached = slices.Clone(s.Messages), true
	}
	s.Messages = nil
	for i, m := range d.Messages {
		s.Messages = append(s.Messages, Entry{
			ID: outsideID("x", s.Seq, i), Message: schemas.AnyMessage{Message: m},
		})
	}
	if d.ClearQueues {
		s.Steering, s.FollowUp, s.ErrorMessage = nil, nil, ""
	}
}

func (s *State) startRun(e schemas.Event, d *schemas.AgentStart) {
	if d.Config != nil {
		s.Config = *d.Config
	}
	s.ErrorMessage = ""
	s.Runs++
	s.Run = &Run{ID: e.RunID, Command: e.CorrelationID, TraceParent: e.TraceParent, StartedAt: e.Time,
		SkipSteering: d.SkipSteering, Unready: d.ErrorMessage}
	s.removeInputs(d.Inputs)
	s.Run.Polled = false
}
