package loop

import (
	"cmp"

	"github.com/loopbus/loopbus/loop/compaction"
	"github.com/loopbus/loopbus/schemas"
)

// Texts of compactions that clients of pi know to the letter.
const (
	TextAlreadyCompacted   = "Already compacted"
	TextNothingToCompact   = "Nothing to compact (session too small)"
	TextCompactionCanceled = "Compaction cancelled"
	TextOverflowAgain      = "Context overflow recovery failed after one compact-and-retry attempt. " +
		"Try reducing context or switching to a larger-context model."
	textSummaryBudget = "No model was asked for a summary: the budget of the run or of the session is used up"
)

// Compacting is a compaction that was requested or is under way. Seq is the sequence of its compaction_start, 0 before
// that.
type Compacting struct {
	Start schemas.CompactionStart `json:"start"`
	Seq   uint64                  `json:"seq,omitempty"`
	Summing
}

// StartCompaction tells the driver to resolve the model for the summary and append what [State.CompactionStart]
// returns.
type StartCompaction struct {
	Reason    schemas.CompactionReason
	CommandID string
	MessageID string // of the reply that failed because the context was too long
}

func (StartCompaction) step() {}

// Uncompactable returns why the context cannot be compacted with these settings, or "".
func (s *State) uncompactable(settings compaction.Settings) string {
	switch p := s.prepare(settings, 0); {
	case s.Run != nil && s.Run.Detached:
		return TextNothingToCompact
	case p == nil && s.compacted() > 0:
		return TextAlreadyCompacted
	case p == nil || p.Nothing():
		return TextNothingToCompact
	}
	return ""
}

// compactionDue reports whether the context has reached the reserve and can be compacted. After a failed compaction it
// returns false until something is added.
func (s *State) compactionDue() bool {
	if !s.Config.Compaction.Enabled || s.Config.ContextWindow <= 0 || s.Uncompacted == s.Tree.Leaf {
		return false
	}
	if s.Run != nil && (s.Run.Abort != nil || s.Run.Uncompacted || overBudget(s, s.Run)) {
		return false
	}
	settings := s.compactionSettings(s.Config)
	return compaction.ShouldCompact(s.ContextTokens(), s.Config.ContextWindow, settings) &&
		s.uncompactable(settings) == ""
}

// dueAtRest is [State.compactionDue] between runs: after an aborted run no compaction is due before the next run.
func (s *State) dueAtRest() bool {
	if s.LastEnd == nil || s.LastEnd.TerminationReason == schemas.EndAbort && len(s.Prompts) == 0 {
		return false
	}
	return s.compactionDue()
}

// CompactionStart returns the event for a [StartCompaction] with the configuration that the summary is made by: a
// compaction_start, or a compaction_end with the reason why there is nothing to compact.
func (s *State) CompactionStart(step StartCompaction, config schemas.RunConfig) schemas.EventData {
	with := *s
	with.Messages = without(s.Messages, step.MessageID) // the compaction removes the failed reply
	settings := with.compactionSettings(config)
	start := &schemas.CompactionStart{
		Reason: step.Reason, CommandID: step.CommandID, MessageID: step.MessageID, TokensBefore: s.ContextTokens(),
		ReserveTokens: settings.ReserveTokens, KeepRecentTokens: settings.KeepRecentTokens, Summing: Asking(config),
	}
	if s.Compacting != nil {
		start.CustomInstructions = s.Compacting.Start.CustomInstructions
	}
	if why := with.uncompactable(settings); why != "" {
		return &schemas.CompactionEnd{
			Reason: step.Reason, CommandID: step.CommandID, TokensBefore: start.TokensBefore, ErrorMessage: why,
		}
	}
	p := with.prepare(settings, 0)
	start.FirstKeptEntryID, start.Split = p.FirstKept, p.Split
	return start
}

// Asking returns how a model is asked for summaries by this configuration.
func Asking(config schemas.RunConfig) schemas.Summing {
	ask := schemas.Summing{
		Model: config.Model, ThinkingLevel: config.ThinkingLevel, Retry: config.Retry, ContextWindow: config.ContextWindow,
	}
	if config.Compaction.Model != nil {
		ask.Model = *config.Compaction.Model
	}
	return ask
}

func (a acceptance) compact() []schemas.EventData {
	if a.s.Busy() || len(a.s.Prompts) > 0 {
		return a.rejected(schemas.RejectBusy, TextBusy)
	}
	if why := a.s.uncompactable(a.s.compactionSettings(a.s.Config)); why != "" {
		return a.rejected(schemas.RejectState, why)
	}
	return a.accepted("")
}

// nextCompaction returns the next step of a compaction that was requested or is under way.
func (s *State) nextCompaction() Step {
	c := s.Compacting
	if c.Seq == 0 && !s.Aborted() {
		return StartCompaction{Reason: c.Start.Reason, CommandID: c.Start.CommandID}
	}
	end := &schemas.CompactionEnd{
		Reason: c.Start.Reason, CommandID: c.Start.CommandID, TokensBefore: c.Start.TokensBefore, Usage: c.Usage,
	}
	d := c.Decision
	switch {
	case s.Aborted() || d != nil && d.Block:
		end.Aborted, end.ErrorMessage = true, TextCompactionCanceled
	case d != nil && d.Compaction != nil:
		s.supplied(end, d.Compaction)
	case c.Failed != "":
		end.ErrorMessage = c.failure(c.Failed)
	case s.overBudget():
		end.ErrorMessage = c.failure(textSummaryBudget)
	default:
		if _, more := s.SummaryRequest(); more {
			return Summarize{NotBefore: c.NextAt}
		}
		result, err := s.preparation().Summarize(s.replies(&c.Summing)...)
		if err != nil { // requests of another version
			end.ErrorMessage = c.failure(err.Error())
			break
		}
		files := schemas.FileLists(result.Files)
		end.Summary, end.FirstKeptEntryID, end.Details = result.Summary, result.FirstKept, &files
	}
	if end.ErrorMessage == "" {
		end.TokensAfter = s.tokensAfter(end)
	}
	return Emit{Data: end, CausationID: c.Start.CommandID}
}

// failure returns the text of a failed compaction.
func (c *Compacting) failure(why string) string {
	switch c.Start.Reason {
	case schemas.CompactThreshold:
		return "Auto-compaction failed: " + why
	case schemas.CompactOverflow:
		return "Context overflow recovery failed: " + why
	}
	return "Compaction failed: " + why
}

// supplied completes a compaction with the summary that a service has written.
func (s *State) supplied(end *schemas.CompactionEnd, d *schemas.SuppliedCompaction) {
	end.Summary, end.FromHook, end.FirstKeptEntryID = d.Summary, true, cmp.Or(
		d.FirstKeptEntryID,
		s.Compacting.Start.FirstKeptEntryID,
	)
}

func (s *State) compactionStart(e schemas.Event, d *schemas.CompactionStart) {
	if s.Run != nil && d.MessageID != "" {
		s.forget(s.Run, d.MessageID)
		s.Run.Overflow = OverflowCompacting
	}
	s.Compacting = &Compacting{Start: *d, Seq: e.Seq, Summing: Summing{Ask: d.Summing}}
}

func (s *State) compactionEnd(e schemas.Event, d *schemas.CompactionEnd) {
	ok := d.ErrorMessage == "" && !d.Aborted
	r := s.Run
	switch {
	case ok:
		s.Messages = s.keptBy(entryID(e.Seq), compactionSummary(e, d), d)
		if r != nil && d.Reason == schemas.CompactOverflow {
			r.Overflow, r.Last = OverflowRecovered, &Outcome{Continue: true}
		}
	case r != nil && d.Reason == schemas.CompactOverflow:
		r.Overflow = OverflowReported
	default:
		s.Uncompacted = s.Tree.Leaf
		if r != nil {
			r.Uncompacted = true
		}
	}
	s.Compacting = nil
	if d.CommandID != "" {
		s.Owed = s.owing(outcomeOwed(d.CommandID, schemas.CommandCompact, d.ErrorMessage, d.Aborted))
	}
}

// outcomeOwed returns the owed outcome of a command whose work has completed.
func outcomeOwed(id string, kind schemas.CommandKind, why string, aborted bool) Owed {
	o := Owed{By: id, Type: schemas.EventCommandApplied, ID: id, Kind: kind}
	if why != "" || aborted {
		o.Type, o.Text, o.Code = schemas.EventCommandRejected, why, schemas.RejectFailed
		if aborted {
			o.Code = schemas.RejectAborted
		}
	}
	return o
}

// Overflow is the state of a run whose context was too long for its model. The run makes one attempt to compact; a good
// reply allows another.
type Overflow string

// The stages of an overflow.
const (
	OverflowNone       Overflow = ""
	OverflowCompacting Overflow = "compacting"
	OverflowRecovered  Overflow = "recovered" // the model is called again
	OverflowReported   Overflow = "reported"  // the attempt failed, and the log has the failure
)

// nextAfterOverflow returns the step after a reply that failed because the context was too long, nil if compaction does
// not apply.
func (s *State) nextAfterOverflow(r *Run, last *Outcome) Step {
	if !last.Overflow || !s.Config.Compaction.Enabled || r.Detached {
		return nil
	}
	switch r.Overflow {
	case OverflowNone:
		return StartCompaction{Reason: schemas.CompactOverflow, MessageID: last.ReplyID}
	case OverflowRecovered:
		return Emit{Data: &schemas.CompactionEnd{
			Reason: schemas.CompactOverflow, TokensBefore: s.ContextTokens(), ErrorMessage: TextOverflowAgain,
		}}
	}
	return nil
}
