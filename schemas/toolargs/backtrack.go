package toolargs

import "slices"

// backtracker matches what Go's engine cannot: lookaround, backreferences, repetitions beyond 1000. It tries and goes
// back, as JavaScript does, and gives up after a bounded amount of work, which then counts as no match.
type backtracker struct {
	root   attempt
	groups int
}

const (
	minAttempts    = 1 << 18 // and as many as it takes to go through the text a few times
	textAttempts   = 16
	maxRepetitions = 5000 // of a group, each of them a level of recursion
)

// attempt matches a part of the pattern at a place of the text, then what follows through next.
type attempt func(m *matching, at int, next func(end int) bool) bool

// matching is the state of one match.
type matching struct {
	text     []rune
	captures [][2]int // of each group, from 1; empty if it has not matched, which a reference to it then matches
	left     int      // attempts that may still be made
	level    int
}

// MatchString reports whether the pattern matches somewhere in s.
func (b *backtracker) MatchString(s string) bool {
	m := &matching{text: []rune(s), captures: make([][2]int, b.groups+1)}
	m.left = minAttempts + textAttempts*len(m.text)
	for start := 0; start <= len(m.text) && m.left > 0; start++ {
		if b.root(m, start, func(int) bool { return true }) {
			return m.left > 0 // else an assertion may have held for want of work
		}
	}
	return false
}

// undo returns how to put the captures back as they are now.
func (m *matching) undo() func() {
	saved := slices.Clone(m.captures)
	return func() { copy(m.captures, saved) }
}
