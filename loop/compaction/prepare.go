package compaction

import "github.com/loopbus/loopbus/schemas"

// A Preparation is everything about a compaction but its summary.
type Preparation struct {
	// FirstKept is the id of the first entry that is kept.
	FirstKept string
	// History are the messages that the summary stands for.
	History []schemas.Message
	// TurnPrefix are, if the cut is in the middle of a turn, the messages from the turn's beginning to the cut.
	TurnPrefix []schemas.Message
	// Split reports whether the cut is in the middle of a turn. The prefix may be empty even then.
	Split bool
	// TokensBefore is the estimated size of the context before the compaction.
	TokensBefore int64
	// PreviousSummary is the summary of the compaction before, "" if there is none. The new summary updates it.
	PreviousSummary string
	// Files are the files that the calls in History and TurnPrefix read and changed, and those of the compaction before.
	Files Files
	// Settings are the settings of the compaction.
	Settings Settings
}

// Nothing reports whether there is nothing to summarize, because all of the path fits into what is kept.
func (p *Preparation) Nothing() bool { return len(p.History)+len(p.TurnPrefix) == 0 }

// Prepare prepares the compaction of a path. It returns nil if the path is empty or its last entry is a compaction.
// Check [Preparation.Nothing] before calling a model.
func Prepare(path []Entry, s Settings) *Preparation {
	if len(path) == 0 || path[len(path)-1].Kind == KindCompaction {
		return nil
	}
	p := &Preparation{Settings: s, Files: NewFiles(), TokensBefore: EstimateContext(Context(path)).Tokens}
	start := 0
	if last := lastCompaction(path); last >= 0 {
		p.PreviousSummary = summaryOf(path[last].Message)
		p.Files.summary(path[last])
		if start = indexOf(path, path[last].FirstKept); start < 0 {
			start = last + 1
		}
	}
	cut := FindCut(path, start, len(path), s.KeepRecentTokens)
	p.FirstKept, p.Split = path[cut.FirstKept].ID, cut.Split
	historyEnd := cut.FirstKept
	if cut.Split {
		historyEnd = cut.TurnStart
		p.TurnPrefix = p.take(path[cut.TurnStart:cut.FirstKept])
	}
	p.History = p.take(path[start:historyEnd])
	return p
}

// take returns the messages to summarize of the entries, and records the files of their calls.
func (p *Preparation) take(entries []Entry) (messages []schemas.Message) {
	for _, e := range entries {
		if m := e.shown(); m != nil && e.Kind != KindCompaction {
			messages = append(messages, m)
			p.Files.calls(m)
		}
	}
	return messages
}
