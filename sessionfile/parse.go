package sessionfile

import (
	"bytes"
	"fmt"
	"slices"
)

// A Problem is a line that is not an entry, and the reason.
type Problem struct {
	Line   int
	Reason string
}

// Error returns line and reason.
func (p Problem) Error() string { return fmt.Sprintf("line %d: %s", p.Line, p.Reason) }

// Parse parses the lines of a file, header and entries alike, of any version. It skips blank lines, and reports lines
// that are not JSON objects.
func Parse(text []byte) (entries []*Entry, problems []Problem) {
	entries = []*Entry{}
	for n, line := range bytes.Split(text, []byte{'\n'}) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		e, err := NewEntry(line)
		if err != nil {
			problems = append(problems, Problem{n + 1, err.Error()})
			continue
		}
		e.Line = n + 1
		entries = append(entries, e)
	}
	return entries, problems
}

// isHeader reports whether the first entry is a session's header.
func isHeader(entries []*Entry) bool {
	if len(entries) == 0 || entries[0].Type != TypeSession {
		return false
	}
	_, ok := entries[0].members.text("id")
	return ok
}

// sound removes lines that are not entries of a tree, in versions with ids.
func sound(entries []*Entry) (kept []*Entry, problems []Problem) {
	for _, e := range entries {
		switch {
		case e.Type == "":
			problems = append(problems, Problem{e.Line, "an entry has a type"})
		case e.Type != TypeSession && e.ID == "":
			problems = append(problems, Problem{e.Line, "an entry has an id"})
		default:
			kept = append(kept, e)
		}
	}
	return kept, problems
}

// Check parses a file of any version strictly. It reports every line that is not an entry, entries with the id of
// another one, cycles of parents, and a version newer than this package's. The lines are migrated, header first; they
// can be used if there is no problem.
func Check(text []byte) (lines []*Entry, problems []Problem) {
	lines, problems = Parse(text)
	if !isHeader(lines) {
		return nil, append(problems, Problem{1, "not a session file: the first line is not a session's header"})
	}
	if v := versionOf(lines); v > Version {
		return nil, append(problems, Problem{lines[0].Line, fmt.Sprintf("version %v is newer than %d", v, Version)})
	}
	Migrate(lines)
	lines, more := sound(lines)
	problems = append(problems, more...)
	first := map[string]*Entry{}
	for i, e := range lines {
		switch other := first[e.ID]; {
		case e.Type == TypeSession && i > 0:
			problems = append(problems, Problem{e.Line, "a second header"})
		case e.Type == TypeSession:
		case other != nil:
			problems = append(problems, Problem{e.Line, fmt.Sprintf("the id %q is that of line %d", e.ID, other.Line)})
		default:
			first[e.ID] = e
		}
	}
	s := FromEntries(lines)
	for id := range s.cut {
		problems = append(problems, Problem{s.byID[id].Line, "its parents lead back to itself"})
	}
	slices.SortStableFunc(problems, func(a, b Problem) int { return a.Line - b.Line })
	return lines, problems
}
