package sessionfile

import (
	"bytes"
	"fmt"
)

// A Problem is a line that is no entry, and why.
type Problem struct {
	Line   int
	Reason string
}

// Error says line and reason.
func (p Problem) Error() string { return fmt.Sprintf("line %d: %s", p.Line, p.Reason) }

// Parse reads the lines of a file, header and entries alike, of any version. Lines that are blank are left out; lines
// that are no JSON objects are left out and reported.
func Parse(text []byte) (entries []*Entry, problems []Problem) {
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

// isHeader reports whether the entries begin as those of a session do.
func isHeader(entries []*Entry) bool {
	if len(entries) == 0 || entries[0].Type != TypeSession {
		return false
	}
	_, ok := entries[0].members.text("id")
	return ok
}

// sound leaves out, of a version that has ids, what is no entry of a tree.
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
