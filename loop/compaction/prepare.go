package compaction

import "github.com/loopbus/loopbus/schemas"

// A Preparation is what a compaction will do: everything about it but the summary.
type Preparation struct {
	// FirstKept is the id of the first entry that is kept.
	FirstKept string
	// History are the messages that the summary stands for.
	History []schemas.Message
	// TurnPrefix are, if the cut is in the middle of a turn, the messages from its beginning to the cut.
	TurnPrefix []schemas.Message
	// Split says that the cut is in the middle of a turn. The prefix may be empty all the same.
	Split bool
	// TokensBefore is the estimated size of the context now.
	TokensBefore int64
	// PreviousSummary is that of the compaction before, "" if there is none. The new summary updates it.
	PreviousSummary string
	// Files are what the calls in History and TurnPrefix read and changed, and the files of the compaction before.
	Files Files
	// Settings are those that were given.
	Settings Settings
}

// Nothing reports whether there is nothing to summarise: all of the path fits into what is kept.
func (p *Preparation) Nothing() bool { return len(p.History)+len(p.TurnPrefix) == 0 }

// Prepare prepares the compaction of a path. It returns nil if the path is empty or its last entry is a compaction. Ask
// [Preparation.Nothing] before a model is asked.
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

// take returns the messages of entries that are to be summarised, and records the files of their calls.
func (p *Preparation) take(entries []Entry) (messages []schemas.Message) {
	for _, e := range entries {
		if m := e.shown(); m != nil && e.Kind != KindCompaction {
			messages = append(messages, m)
			p.Files.calls(m)
		}
	}
	return messages
}
