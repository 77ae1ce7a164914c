package compaction

import "github.com/loopbus/loopbus/schemas"

// A Cut is the place where a path is cut. FirstKept is the index of the first entry that is kept. If that is in the
// middle of a turn, Split is true and TurnStart is the index of the entry that began the turn; otherwise TurnStart is
// -1.
type Cut struct {
	FirstKept int
	TurnStart int
	Split     bool
}

// FindCut chooses the cut in the entries [start, end) so that messages of at least keep tokens remain at the end. It
// never cuts between a call and its result. If nothing can be cut off, FirstKept is the first place to cut, or start.
//
// FindCut may cut before custom messages and branch summaries, but does not count their size.
func FindCut(entries []Entry, start, end int, keep int64) Cut {
	places := places(entries, start, end)
	if len(places) == 0 {
		return Cut{FirstKept: start, TurnStart: -1}
	}
	first := places[0]
	sum := int64(0)
	for i := end - 1; i >= start; i-- {
		if entries[i].Kind != KindMessage {
			continue
		}
		if sum += EstimateTokens(entries[i].Message); sum >= keep {
			first = atOrAfter(places, i)
			break
		}
	}
	for first > start && entries[first-1].Kind != KindMessage && entries[first-1].Kind != KindCompaction {
		first--
	}
	cut := Cut{FirstKept: first, TurnStart: -1}
	if entries[first].role() != schemas.RoleUser {
		cut.TurnStart = TurnStart(entries, first, start)
		cut.Split = cut.TurnStart >= 0
	}
	return cut
}

// places returns the indexes of the entries that may be the first one kept.
func places(entries []Entry, start, end int) (at []int) {
	for i := start; i < end; i++ {
		switch entries[i].Kind {
		case KindCustomMessage, KindBranchSummary:
			at = append(at, i)
		case KindMessage:
			switch entries[i].role() {
			case schemas.RoleUser, schemas.RoleAssistant,
				RoleBashExecution, RoleCustom, RoleBranchSummary, RoleCompactionSummary:
				at = append(at, i)
			}
		}
	}
	return at
}

// atOrAfter returns the first place at or after an index, or the first place of all.
func atOrAfter(places []int, i int) int {
	for _, p := range places {
		if p >= i {
			return p
		}
	}
	return places[0]
}

// TurnStart searches backwards from index to start for the entry that began the turn: a user's message or command, a
// custom message or a branch summary. It returns -1 if there is none.
func TurnStart(entries []Entry, index, start int) int {
	for i := index; i >= start; i-- {
		switch entries[i].Kind {
		case KindCustomMessage, KindBranchSummary:
			return i
		case KindMessage:
			if role := entries[i].role(); role == schemas.RoleUser || role == RoleBashExecution {
				return i
			}
		}
	}
	return -1
}
