package loop

import (
	"cmp"
	"encoding/json"
	"slices"

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

// Compacting is a compaction that was asked for or is under way. Seq is the sequence of its compaction_start, 0 before
// that.
type Compacting struct {
	Start schemas.CompactionStart `json:"start"`
	Seq   uint64                  `json:"seq,omitempty"`
	Summing
}

// StartCompaction: resolve which model is asked, and append what [State.CompactionStart] returns.
type StartCompaction struct {
	Reason    schemas.CompactionReason
	CommandID string
	MessageID string // of the reply that failed because the context was too long
}

func (StartCompaction) step() {}

// compactionSettings are the settings by which a context is compacted, fit for a window.
func compactionSettings(p schemas.CompactionPolicy, window int64) compaction.Settings {
	d := compaction.DefaultSettings()
	s := compaction.Settings{
		Enabled: p.Enabled, ReserveTokens: cmp.Or(p.ReserveTokens, d.ReserveTokens),
		KeepRecentTokens: cmp.Or(p.KeepRecentTokens, d.KeepRecentTokens),
	}
	if window > 0 { // of a small window something has to be left to compact
		s.ReserveTokens = min(s.ReserveTokens, window/2)
		s.KeepRecentTokens = min(s.KeepRecentTokens, (window-s.ReserveTokens)/2)
	}
	return s
}

// compactionSettings are those of the configuration, as they fit the context. Where the newest results alone are more
// than is to be kept there is no place to cut behind them, and before them is their call: it is kept with them, so that
// what came before can be summed up.
func (s *State) compactionSettings(config schemas.RunConfig) compaction.Settings {
	settings := compactionSettings(config.Compaction, config.ContextWindow)
	results := int64(0)
	for _, e := range slices.Backward(s.Messages) {
		if e.Message.MessageRole() != schemas.RoleToolResult {
			break
		}
		results += compaction.EstimateTokens(e.Message.Message)
	}
	if results >= settings.KeepRecentTokens {
		settings.KeepRecentTokens = results + 1
	}
	return settings
}

// compacted is the sequence of the newest compaction of the context, 0 if there is none.
func (s *State) compacted() uint64 {
	if len(s.Messages) == 0 || s.Messages[0].Message.MessageRole() != compaction.RoleCompactionSummary {
		return 0
	}
	seq, _ := EntrySeq(s.Messages[0].ID)
	return seq
}

// since is the index of the first entry that was added after an event, or the number of entries.
func (s *State) since(seq uint64) int {
	for i, e := range s.Messages {
		if at, ok := EntrySeq(e.ID); ok && at > seq {
			return i
		}
	}
	return len(s.Messages)
}

// ContextTokens estimates the size of the context in tokens. Usage that was reported before a compaction does not
// count.
func (s *State) ContextTokens() int64 {
	from := 0
	if seq := s.compacted(); seq > 0 {
		from = s.since(seq)
	}
	return compaction.EstimateContextSince(s.Transcript(), from).Tokens
}

// ContextUsage is how full the window of the newest run's models is, nil where that window is not known.
func (s *State) ContextUsage() *schemas.ContextUsage {
	if s.Config.ContextWindow <= 0 {
		return nil
	}
	return &schemas.ContextUsage{Tokens: s.ContextTokens(), ContextWindow: s.Config.ContextWindow}
}

// path is the context as compaction sees it, without what was added after an event; 0 is all of it.
func (s *State) path(upTo uint64) []compaction.Entry {
	var path []compaction.Entry
	for i, e := range s.Messages {
		if at, ok := EntrySeq(e.ID); upTo > 0 && ok && at > upTo {
			break
		}
		entry := compaction.Entry{ID: e.ID, Kind: compaction.Kind(entryType(e.Message.Message)), Message: e.Message.Message}
		switch entry.Kind {
		case compaction.KindCompaction, compaction.KindBranchSummary:
			entry.Files, entry.FromHook = filesOf(e.Message.Message)
			if entry.Kind == compaction.KindCompaction && i+1 < len(s.Messages) {
				entry.FirstKept = s.Messages[i+1].ID
			}
		}
		path = append(path, entry)
	}
	return path
}

// filesOf are the file lists of a summary, and whether a service has written it.
func filesOf(m schemas.Message) (compaction.FileLists, bool) {
	var says struct {
		Details  compaction.FileLists `json:"details"`
		FromHook bool                 `json:"fromHook"`
	}
	if c, ok := m.(*schemas.CustomMessage); ok {
		_ = json.Unmarshal(c.Raw, &says) // details of a service's own are no lists
	}
	return says.Details, says.FromHook
}

// prepare prepares a compaction of the context, nil where nothing has come since the last one.
func (s *State) prepare(settings compaction.Settings, upTo uint64) *compaction.Preparation {
	if seq := s.compacted(); seq > 0 && s.since(seq) == len(s.Messages) {
		return nil
	}
	return compaction.Prepare(s.path(upTo), settings)
}

// preparation is that of the compaction under way: the same for every process, whatever was added meanwhile.
func (s *State) preparation() *compaction.Preparation {
	c := s.Compacting
	p := compaction.Prepare(s.path(c.Seq), compaction.Settings{
		ReserveTokens: c.Start.ReserveTokens, KeepRecentTokens: c.Start.KeepRecentTokens,
	})
	if p == nil { // the context is none that a compaction was begun of
		p = &compaction.Preparation{Files: compaction.NewFiles()}
	}
	p.TokensBefore = c.Start.TokensBefore
	return p
}

// Uncompactable says why the context cannot be compacted by these settings, or "".
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

// compactionDue reports whether the context has reached the reserve and can be compacted. What has just failed is not
// retried before something has been added.
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

// dueAtRest is [State.compactionDue] between runs: after one that was aborted not before the next one.
func (s *State) dueAtRest() bool {
	if s.LastEnd == nil || s.LastEnd.TerminationReason == schemas.EndAbort && len(s.Prompts) == 0 {
		return false
	}
	return s.compactionDue()
}

// CompactionStart is the event that a [StartCompaction] comes to with the configuration that counts for the summary: a
// compaction_start, or a compaction_end that says why there is nothing to compact.
func (s *State) CompactionStart(step StartCompaction, config schemas.RunConfig) schemas.EventData {
	with := *s
	with.Messages = without(s.Messages, step.MessageID) // the reply that failed is removed by then
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

// Asking is how a model is asked for summaries by this configuration.
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

// nextCompaction is what a compaction that was asked for or is under way needs next.
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
		if err != nil { // of another version's requests
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

// failure is the text of a compaction that failed, and why.
func (c *Compacting) failure(why string) string {
	switch c.Start.Reason {
	case schemas.CompactThreshold:
		return "Auto-compaction failed: " + why
	case schemas.CompactOverflow:
		return "Context overflow recovery failed: " + why
	}
	return "Compaction failed: " + why
}

// supplied is a compaction whose summary a service has written.
func (s *State) supplied(end *schemas.CompactionEnd, d *schemas.SuppliedCompaction) {
	end.Summary, end.FromHook, end.FirstKeptEntryID = d.Summary, true, cmp.Or(
		d.FirstKeptEntryID,
		s.Compacting.Start.FirstKeptEntryID,
	)
}

// tokensAfter estimates the context that a compaction leaves.
func (s *State) tokensAfter(end *schemas.CompactionEnd) int64 {
	after := *s
	after.Messages = s.keptBy(entryID(s.Seq+1), compactionSummary(schemas.Event{}, end), end)
	return compaction.EstimateContextSince(after.Transcript(), len(after.Messages)).Tokens
}

// keptBy is the context behind a compaction: its summary and what follows from the first entry that was kept.
func (s *State) keptBy(id string, summary schemas.Message, d *schemas.CompactionEnd) []Entry {
	kept := -1
	for i := range s.Messages {
		if s.Messages[i].ID == d.FirstKeptEntryID {
			kept = i
			break
		}
	}
	if kept < 0 && s.Compacting != nil {
		kept = s.since(s.Compacting.Seq)
	}
	for kept >= 0 && kept < len(s.Messages) && s.Messages[kept].Message.MessageRole() == schemas.RoleToolResult {
		kept++ // no result without its call, whatever a service says
	}
	entries := []Entry{{ID: id, Message: schemas.AnyMessage{Message: summary}}}
	if kept >= 0 {
		entries = append(entries, s.Messages[kept:]...)
	}
	return entries
}

// compactionSummary is what a compaction is on the path.
func compactionSummary(e schemas.Event, d *schemas.CompactionEnd) schemas.Message {
	return made(struct {
		Role         schemas.Role       `json:"role"`
		Summary      string             `json:"summary"`
		TokensBefore int64              `json:"tokensBefore"`
		Details      *schemas.FileLists `json:"details,omitempty"`
		FromHook     bool               `json:"fromHook,omitempty"`
		Timestamp    int64              `json:"timestamp,omitempty"`
	}{compaction.RoleCompactionSummary, d.Summary, d.TokensBefore, d.Details, d.FromHook, unixMilli(e.Time)},
		compaction.RoleCompactionSummary)
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

// outcomeOwed is the outcome of a command whose work has come to its end.
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

// Overflow says how far a run has come with a context that was too long for its model. One attempt is made; a good
// reply allows another.
type Overflow string

// The stages of an overflow.
const (
	OverflowNone       Overflow = ""
	OverflowCompacting Overflow = "compacting"
	OverflowRecovered  Overflow = "recovered" // the model is asked again
	OverflowReported   Overflow = "reported"  // nothing came of it, and the log says so
)

// nextAfterOverflow is what follows a reply that failed because the context was too long, nil where that is no matter
// of compaction.
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

func (s *State) overBudget() bool {
	if s.Run != nil {
		return overBudget(s, s.Run)
	}
	return overBudget(s, &Run{})
}
