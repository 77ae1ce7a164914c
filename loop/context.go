package loop

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/loopbus/loopbus/loop/compaction"
	"github.com/loopbus/loopbus/schemas"
)

// compactionSettings returns the settings of a compaction, adapted to a context window.
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

// compactionSettings returns the settings of the configuration, adapted to the context. If the newest results alone
// exceed what is to be kept there is no place to cut after them, and their call is before them: it is kept with them,
// so that what came before can be summarized.
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

// compacted returns the sequence of the newest compaction of the context, 0 if there is none.
func (s *State) compacted() uint64 {
	if len(s.Messages) == 0 || s.Messages[0].Message.MessageRole() != compaction.RoleCompactionSummary {
		return 0
	}
	seq, _ := EntrySeq(s.Messages[0].ID)
	return seq
}

// since returns the index of the first entry that was added after an event, or the number of entries.
func (s *State) since(seq uint64) int {
	for i, e := range s.Messages {
		if at, ok := EntrySeq(e.ID); ok && at > seq {
			return i
		}
	}
	return len(s.Messages)
}

// ContextTokens estimates the size of the context in tokens. It ignores usage that was reported before a compaction.
func (s *State) ContextTokens() int64 {
	from := 0
	if seq := s.compacted(); seq > 0 {
		from = s.since(seq)
	}
	return compaction.EstimateContextSince(s.Transcript(), from).Tokens
}

// ContextUsage returns how full the context window of the newest run's models is, nil if the window is unknown.
func (s *State) ContextUsage() *schemas.ContextUsage {
	if s.Config.ContextWindow <= 0 {
		return nil
	}
	return &schemas.ContextUsage{Tokens: s.ContextTokens(), ContextWindow: s.Config.ContextWindow}
}

// path returns the context as compaction sees it, without what was added after an event; 0 includes everything.
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

// filesOf returns the file lists of a summary, and whether a service has written it.
func filesOf(m schemas.Message) (compaction.FileLists, bool) {
	var says struct {
		Details  compaction.FileLists `json:"details"`
		FromHook bool                 `json:"fromHook"`
	}
	if c, ok := m.(*schemas.CustomMessage); ok {
		_ = json.Unmarshal(c.Raw, &says) // a service's own details may be anything, and then have no lists
	}
	return says.Details, says.FromHook
}

// tokensAfter estimates the size of the context that a compaction leaves.
func (s *State) tokensAfter(end *schemas.CompactionEnd) int64 {
	after := *s
	after.Messages = s.keptBy(entryID(s.Seq+1), compactionSummary(schemas.Event{}, end), end)
	return compaction.EstimateContextSince(after.Transcript(), len(after.Messages)).Tokens
}

// keptBy returns the context after a compaction: its summary and the entries from the first one that was kept.
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
		kept++ // keep no result without its call, whatever a service has chosen
	}
	entries := []Entry{{ID: id, Message: schemas.AnyMessage{Message: summary}}}
	if kept >= 0 {
		entries = append(entries, s.Messages[kept:]...)
	}
	return entries
}

// compactionSummary returns the message that stands for a compaction on the path.
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

// prepare prepares a compaction of the context; it returns nil if nothing was added since the last one.
func (s *State) prepare(settings compaction.Settings, upTo uint64) *compaction.Preparation {
	if seq := s.compacted(); seq > 0 && s.since(seq) == len(s.Messages) {
		return nil
	}
	return compaction.Prepare(s.path(upTo), settings)
}

// preparation returns the preparation of the compaction under way: the same in every process, whatever was added since.
func (s *State) preparation() *compaction.Preparation {
	c := s.Compacting
	p := compaction.Prepare(s.path(c.Seq), compaction.Settings{
		ReserveTokens: c.Start.ReserveTokens, KeepRecentTokens: c.Start.KeepRecentTokens,
	})
	if p == nil { // no compaction can have started with this context
		p = &compaction.Preparation{Files: compaction.NewFiles()}
	}
	p.TokensBefore = c.Start.TokensBefore
	return p
}

// Outlines of messages: only their roles are left.
var (
	outlineOfUser      = &schemas.UserMessage{}
	outlineOfAssistant = &schemas.AssistantMessage{}
	outlineOfResult    = &schemas.ToolResultMessage{}
)

// Outline drops the contents of messages and calls, of which the context alone may have [MaxContextBytes], for those
// who only follow what a session does. Number, order, ids and roles stay: events refer to nothing else. An outlined
// state only folds events: it provides no steps, and its outcomes that are owed may lack texts. To outline a state
// after each event costs no more than what the event has added.
func (s *State) Outline() {
	outlineEntries(s.Messages)
	for _, queue := range [][]Input{s.Prompts, s.Steering, s.FollowUp} {
		outlineInputs(queue)
	}
	r := s.Run
	if r == nil {
		return
	}
	outlineEntries(r.Context)
	outlineInputs(r.Inject)
	if r.Open != nil {
		r.Open.Message.Message = outline(r.Open.Message.Message)
	}
	if r.Turn != nil {
		r.Turn.outline()
	}
}

// outlineEntries outlines the first entry, which may be a new summary, and the last ones that are not outlined yet.
func outlineEntries(entries []Entry) {
	for n := len(entries) - 1; n >= 0; n-- {
		m := &entries[n].Message
		if short := outline(m.Message); short != m.Message {
			m.Message = short
		} else if n > 1 {
			n = 1 // those between were outlined before
		}
	}
}

func outlineInputs(queue []Input) {
	for i := range queue {
		in := &queue[i]
		in.Begin = nil
		if slices.ContainsFunc(in.Messages, func(m schemas.Message) bool { return !isOutline(m) }) {
			short := make(schemas.Messages, len(in.Messages)) // the old list may be an event's
			for n, m := range in.Messages {
				short[n] = outline(m)
			}
			in.Messages = short
		}
	}
}

func isOutline(m schemas.Message) bool { return outline(m) == m }

// outline returns the outline of a message, which is the message itself if it is one already.
func outline(m schemas.Message) schemas.Message {
	switch m := m.(type) {
	case *schemas.UserMessage:
		return outlineOfUser
	case *schemas.AssistantMessage:
		return outlineOfAssistant
	case *schemas.ToolResultMessage:
		return outlineOfResult
	case *schemas.CustomMessage:
		if m.Raw != nil {
			return &schemas.CustomMessage{Role: m.Role}
		}
	}
	return m
}

func (t *Turn) outline() {
	if t.Reply != nil && t.Reply.Content != nil {
		short := *t.Reply
		short.Content = nil
		t.Reply = &short
	}
	for i := range t.Calls {
		c := &t.Calls[i]
		c.ToolCall.Arguments, c.ToolCall.ThoughtSignature, c.Decision = nil, "", nil
		if c.End != nil && c.End.Result.Content != nil {
			short := *c.End
			short.Result = schemas.ToolResult{Terminate: c.End.Result.Terminate}
			c.End = &short
		}
	}
}
