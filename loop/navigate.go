package loop

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/loopbus/loopbus/loop/compaction"
	"github.com/loopbus/loopbus/schemas"
)

// MaxLabels is how many entries of a session may have a label.
const MaxLabels = 1000

// TextBusy is why a session cannot be taken elsewhere now.
const TextBusy = "A run is under way, or about to begin: wait for its end or abort it"

// Errors of going to an entry.
var (
	ErrNoEntry  = errors.New("no such entry")
	ErrNotAgain = errors.New("the entry is no user's message")
)

// TextSummaryCancelled is why a navigation did not take place whose summary was stopped.
const TextSummaryCancelled = "Branch summary cancelled"

// Navigation is a navigate that was accepted and whose leaf has not been moved. Seq is the sequence of its
// branch_summary_start, 0 before that; Move is what that event says.
type Navigation struct {
	CommandID string           `json:"commandId"`
	Navigate  schemas.Navigate `json:"navigate"`
	Move      *schemas.Leaf    `json:"move,omitempty"`
	Seq       uint64           `json:"seq,omitempty"`
	Summing
}

// Navigate: read the path to the entry from the log ([State.Enter]), ask the services of the hook session_before_tree,
// unless it has been decided, and append what [State.Moved] returns, or a command_rejected where there is no such
// entry.
type Navigate struct{ CommandID, TargetID string }

func (Navigate) step() {}

// Path is the way to an entry: its parent's id, and what a model is shown on the path, up to the entry and with it.
// Again says that the entry is a user's message or a custom_message, which is to be written anew; Text is its text.
type Path struct {
	ID, Parent string
	Entries    []Entry
	Again      bool
	Text       string
}

// before is the path without the entry itself.
func (p *Path) before() []Entry {
	if n := len(p.Entries); n > 0 && p.Entries[n-1].ID == p.ID {
		return p.Entries[:n-1]
	}
	return p.Entries
}

// Enter folds the next event, as [State.Apply] does, and returns the path to the entry with this id if the event has
// made the entry, else nil. The path shares the state's messages.
func (s *State) Enter(e schemas.Event, id string) (*Path, error) {
	at := s.Tree
	if err := s.Apply(e); err != nil {
		return nil, err
	}
	for _, n := range at.Apply(e) {
		if n.ID != id {
			continue
		}
		p := &Path{ID: id, Parent: n.Parent, Entries: s.Messages}
		for i := range s.Messages {
			// A compaction made here comes first of the context, and all of that counts.
			if s.Messages[i].ID == id && (n.Type != schemas.EntryCompaction || id != entryID(e.Seq)) {
				p.Entries = s.Messages[:i+1]
			}
		}
		p.Text, p.Again = again(n.Message)
		return p, nil
	}
	return nil, nil
}

// again returns the text of a message that is written anew when somebody goes there.
func again(m schemas.Message) (text string, ok bool) {
	switch m := m.(type) {
	case *schemas.UserMessage:
		return joined(m.Content), true
	case *schemas.CustomMessage:
		var custom schemas.AddMessage
		if m.Role != compaction.RoleCustom || json.Unmarshal(m.Raw, &custom) != nil {
			return "", false
		}
		return joined(custom.Content), true
	}
	return "", false
}

// joined is the text of the blocks, with nothing between them.
func joined(blocks schemas.Contents) (text string) {
	for _, b := range blocks {
		if t, ok := b.(schemas.Text); ok {
			text += t.Text
		}
	}
	return text
}

// Moved is the event that has the navigation under way, if there is one, arrive; or a branch_summary_start, where what
// is left behind is to be summed up first, by a model that is asked as ask says; or the refusal that a service has
// decided on.
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

// fromID is how a summary names the entry that it is put below.
func fromID(d *schemas.Leaf) string { return cmp.Or(d.LeafID, "root") }

// Left are the messages that a move to the end of a path leaves behind.
func (s *State) Left(p *Path) (messages schemas.Messages) {
	for _, e := range s.left(s.moved(p)) {
		messages = append(messages, e.Message.Message)
	}
	return messages
}

// left are the entries that a move leaves behind: those of the context behind the newest that stays.
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

// Busy reports whether something is under way that the path must not change under: a run, or what was begun and has to
// come to its end first.
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

// addMessage adds a message to the path, where no run is in the middle of a turn: a model would be shown it between a
// call and its result. A steer reaches a run.
func (a acceptance) addMessage(d *schemas.AddMessage) []schemas.EventData {
	if a.s.Busy() {
		return a.rejected(schemas.RejectBusy, TextBusy)
	}
	return a.applied(d)
}

// nextNavigation is what a navigation needs next.
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

// movedWithSummary is the move of the navigation under way, whose model has written the summary.
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

// branchPreparation is what the summary of the branch that is being left is made from: the same for every process.
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

// instructions are added to the model's usual ones, or replace them.
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

// moveLeaf folds a move of the leaf; the label and the outcome of its command are owed then.
func (s *State) moveLeaf(e schemas.Event, d *schemas.Leaf) {
	keep := 0
	for i := range s.Messages {
		if s.Messages[i].ID == d.Keep {
			keep = i + 1
		}
	}
	s.Messages = s.Messages[:keep:keep]
	for _, m := range d.Entries {
		s.Messages = append(s.Messages, Entry(m))
	}
	label := d.TargetID
	if d.Summary != nil {
		label = entryID(e.Seq)
		s.Messages = append(s.Messages, Entry{ID: label, Message: schemas.AnyMessage{Message: branchSummary(e, d.Summary)}})
	}
	n := s.Navigating
	if n == nil {
		return
	}
	s.Navigating = nil
	if text := n.label(); text != "" {
		raw, _ := schemas.Marshal(&schemas.Label{TargetID: label, Label: text}) // two texts always encode
		s.Owed = s.owing(Owed{
			By: n.CommandID, Type: schemas.EventLabel, ID: n.CommandID, Kind: schemas.CommandNavigate, Data: raw,
		})
	}
	s.Owed = s.owing(Owed{
		By: n.CommandID, Type: schemas.EventCommandApplied, ID: n.CommandID, Kind: schemas.CommandNavigate, Text: d.Text,
	})
}

func (s *State) setLabel(d *schemas.Label) {
	if d.Label == "" {
		delete(s.Labels, d.TargetID)
		return
	}
	if s.Labels == nil {
		s.Labels = make(map[string]string)
	}
	s.Labels[d.TargetID] = d.Label
}

// gaveUp is what the refusal of a command means that was accepted before: it changes nothing.
func (s *State) gaveUp(id string) {
	if s.Navigating != nil && s.Navigating.CommandID == id {
		s.Navigating = nil
	}
}

// addEntry puts a message on the path that is no run's.
func (s *State) addEntry(id string, m schemas.Message) {
	s.Messages = append(s.Messages, Entry{ID: id, Message: schemas.AnyMessage{Message: m}})
}

// fork is the copy that a branch command with an entry asks for, of the state right after the entry's event.
func (s *State) fork(p *Path, at schemas.BranchPosition) (*State, error) {
	before := *s
	before.Run, before.Messages = nil, p.Entries
	if cmp.Or(at, schemas.BranchAt) == schemas.BranchAt {
		return &before, nil
	}
	if n := len(p.Entries); n == 0 || p.Entries[n-1].Message.MessageRole() != schemas.RoleUser {
		return nil, ErrNotAgain
	}
	before.Messages = p.before()
	return &before, nil
}
