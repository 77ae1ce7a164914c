package loop

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/loopbus/loopbus/loop/compaction"
	"github.com/loopbus/loopbus/schemas"
)

// TextBusy is why a session cannot navigate now.
const TextBusy = "A run is under way, or about to begin: wait for its end or abort it"

// Errors of navigating to an entry.
var (
	ErrNoEntry  = errors.New("no such entry")
	ErrNotAgain = errors.New("the entry is no user's message")
)

// TextSummaryCancelled is why a navigation did not take place: its summary was aborted.
const TextSummaryCancelled = "Branch summary cancelled"

// Navigation is an accepted navigate whose leaf has not moved yet. Seq is the sequence of its branch_summary_start, 0
// before that; Move is what that event says.
type Navigation struct {
	CommandID string           `json:"commandId"`
	Navigate  schemas.Navigate `json:"navigate"`
	Move      *schemas.Leaf    `json:"move,omitempty"`
	Seq       uint64           `json:"seq,omitempty"`
	Summing
}

// Navigate tells the driver to read the path to the entry from the log ([State.Enter]), to ask the services of the hook
// session_before_tree unless it was decided, and to append what [State.Moved] returns, or a command_rejected if there
// is no such entry.
type Navigate struct{ CommandID, TargetID string }

func (Navigate) step() {}

// Moved returns the event that completes the navigation under way; or a branch_summary_start, if a model has to
// summarize first what is left behind, for which ask says how to ask it; or the rejection that a service has decided.
func (s *State) Moved(p *Path, ask schemas.Summing) schemas.EventData {
	n := s.Navigating
	if n == nil {
		return nil
	}
	d := s.moved(p)
	switch h := n.Decision; {
	case h != nil && h.Block:
		return s.refuseNavigation(schemas.RejectAborted, cmp.Or(h.Reason, TextSummaryCancelled))
	case !n.Navigate.Summarize || len(s.left(d)) == 0:
	case h != nil && h.Summary != "":
		d.Summary = &schemas.BranchSummary{FromID: fromID(d), Summary: h.Summary, FromHook: true}
	default:
		return &schemas.BranchSummaryStart{Move: *d, Summing: ask}
	}
	return d
}

func (s *State) refuseNavigation(code schemas.RejectCode, reason string) *schemas.CommandRejected {
	return &schemas.CommandRejected{
		CommandID: s.Navigating.CommandID, Kind: schemas.CommandNavigate, Code: code, Reason: reason,
	}
}

// fromID returns the name that a summary has for the entry it is put below.
func fromID(d *schemas.Leaf) string { return cmp.Or(d.LeafID, "root") }

// Left returns the messages that a move to the end of a path leaves behind.
func (s *State) Left(p *Path) (messages schemas.Messages) {
	for _, e := range s.left(s.moved(p)) {
		messages = append(messages, e.Message.Message)
	}
	return messages
}

// left returns the entries that a move leaves behind: those of the context after the newest one that stays.
func (s *State) left(d *schemas.Leaf) []Entry {
	for i := range s.Messages {
		if s.Messages[i].ID == d.Keep {
			return s.Messages[i+1:]
		}
	}
	return s.Messages
}

func (s *State) moved(p *Path) *schemas.Leaf {
	d := &schemas.Leaf{TargetID: p.ID, LeafID: p.ID, OldLeafID: s.Tree.Leaf}
	entries := p.Entries
	if p.Again {
		d.LeafID, d.Text, entries = p.Parent, p.Text, p.before()
	}
	n := 0
	for n < len(entries) && n < len(s.Messages) && entries[n].ID == s.Messages[n].ID {
		n++
	}
	if n > 0 {
		d.Keep = entries[n-1].ID
	}
	for _, e := range entries[n:] {
		d.Entries = append(d.Entries, schemas.TreeMessage{ID: e.ID, Message: e.Message})
	}
	return d
}

// Busy reports whether something is under way during which the path must not change: a run, or a compaction or
// navigation that has begun.
func (s *State) Busy() bool { return s.Run != nil || s.Navigating != nil || s.Compacting != nil }

func (a acceptance) navigate() []schemas.EventData {
	if a.s.Busy() || len(a.s.Prompts) > 0 {
		return a.rejected(schemas.RejectBusy, TextBusy)
	}
	return a.accepted("")
}

func (a acceptance) label(d *schemas.Label) []schemas.EventData {
	if _, known := a.s.Labels[d.TargetID]; !known && d.Label != "" && len(a.s.Labels) >= MaxLabels {
		return a.rejected(schemas.RejectState, fmt.Sprintf("%d entries have a label already", MaxLabels))
	}
	return a.applied(d)
}

// addMessage returns the events that add a message to the path, if no run is in the middle of a turn: there the model
// would get it between a call and its result. A steer reaches a run.
func (a acceptance) addMessage(d *schemas.AddMessage) []schemas.EventData {
	if a.s.Busy() {
		return a.rejected(schemas.RejectBusy, TextBusy)
	}
	added := customMessage(schemas.Event{}, d)
	if rejected := a.tooMuch(0, schemas.Messages{added}.Size()); rejected != nil {
		return rejected
	}
	return a.applied(d)
}

// nextNavigation returns the next step of a navigation.
func (s *State) nextNavigation() Step {
	n := s.Navigating
	end := &schemas.BranchSummaryEnd{Usage: n.Usage}
	switch {
	case n.Seq == 0 && n.Abort != nil:
		return Emit{Data: s.refuseNavigation(schemas.RejectAborted, TextSummaryCancelled), CausationID: n.CommandID}
	case n.Seq == 0:
		return Navigate{CommandID: n.CommandID, TargetID: n.Navigate.TargetID}
	case n.Abort != nil:
		end.Aborted, end.ErrorMessage = true, TextSummaryCancelled
	case n.Failed != "":
		end.ErrorMessage = n.Failed
	case s.overBudget():
		end.ErrorMessage = textSummaryBudget
	default:
		if _, more := s.SummaryRequest(); more {
			return Summarize{NotBefore: n.NextAt}
		}
		return Emit{Data: s.movedWithSummary(), CausationID: n.CommandID}
	}
	return Emit{Data: end, CausationID: n.CommandID}
}

// movedWithSummary returns the move of the navigation under way, with the summary that its model has written.
func (s *State) movedWithSummary() *schemas.Leaf {
	n := s.Navigating
	d := *n.Move
	d.Summary = &schemas.BranchSummary{FromID: fromID(&d), Summary: compaction.ErrNoContent.Error()}
	if replies := s.replies(&n.Summing); len(replies) > 0 {
		text, files, err := s.branchPreparation().Summarize(replies[0])
		if err == nil {
			lists := schemas.FileLists(files)
			d.Summary.Summary, d.Summary.Details = text, &lists
		}
	}
	return &d
}

// branchPreparation returns what the summary of the branch is made from: the same in every process.
func (s *State) branchPreparation() *compaction.BranchPreparation {
	n := s.Navigating
	path := s.path(n.Seq)
	from := len(s.Messages) - len(s.left(n.Move))
	reserve := int64(0)
	if window := n.Ask.ContextWindow; window > 0 {
		reserve = min(compaction.DefaultSettings().ReserveTokens, window/2)
	}
	return compaction.PrepareBranch(path[min(from, len(path)):], compaction.BranchBudget(n.Ask.ContextWindow, reserve))
}

// instructions returns the instructions that are added to the model's usual ones or replace them.
func (n *Navigation) instructions() (text string, replace bool) {
	text, replace = n.Navigate.CustomInstructions, n.Navigate.ReplaceInstructions
	if d := n.Decision; d != nil {
		if d.CustomInstructions != nil {
			text = *d.CustomInstructions
		}
		if d.ReplaceInstructions != nil {
			replace = *d.ReplaceInstructions
		}
	}
	return text, replace
}

func (n *Navigation) label() string {
	if n.Decision != nil && n.Decision.Label != nil {
		return *n.Decision.Label
	}
	return n.Navigate.Label
}

func (s *State) branchSummaryStart(e schemas.Event, d *schemas.BranchSummaryStart) {
	if n := s.Navigating; n != nil {
		move := d.Move
		n.Move, n.Seq, n.Ask = &move, e.Seq, d.Summing
	}
}

func (s *State) branchSummaryEnd(d *schemas.BranchSummaryEnd) {
	if n := s.Navigating; n != nil {
		s.Navigating = nil
		s.Owed = s.owing(outcomeOwed(n.CommandID, schemas.CommandNavigate, d.ErrorMessage, d.Aborted))
	}
}

// gaveUp folds the rejection of a command that was accepted before: the command changes nothing.
func (s *State) gaveUp(id string) {
	if s.Navigating != nil && s.Navigating.CommandID == id {
		s.Navigating = nil
	}
}
