package edit

import (
	"fmt"
	"strconv"
	"strings"
)

// surroundings is how many unchanged lines are shown before and after a change.
const surroundings = 4

// diff returns the differences between two texts, with line numbers, for people. first is the number of the first line
// of the new text that differs, 0 if none does.
func diff(old, new string) (text string, first int) {
	before, after := split(old), split(new)
	p := printer{width: len(strconv.Itoa(max(strings.Count(old, "\n"), strings.Count(new, "\n")) + 1))}
	changes := difference(before, after)
	shown := 0 // lines of before that are written or skipped
	for n, c := range changes {
		p.between(before, shown, c.i, n > 0, true)
		for i := c.i; i < c.j; i++ {
			p.line('-', i+1, before[i])
		}
		for k := c.k; k < c.l; k++ {
			p.line('+', k+1, after[k])
		}
		shown = c.j
	}
	if len(changes) == 0 {
		return "", 0
	}
	p.between(before, shown, len(before), true, false)
	return strings.Join(p.lines, "\n"), changes[0].k + 1
}

// split splits a text after each line end, so that a last line with a line end differs from the same line without.
func split(text string) []string {
	list := strings.SplitAfter(text, "\n")
	if list[len(list)-1] == "" {
		list = list[:len(list)-1]
	}
	return list
}

type printer struct {
	width int // of a line number
	lines []string
}

func (p *printer) line(sign byte, number int, text string) {
	p.lines = append(p.lines, fmt.Sprintf("%c%*d %s", sign, p.width, number, strings.TrimSuffix(text, "\n")))
}

// between writes the unchanged lines i to j: those next to a change before or after them, and dots for the rest.
func (p *printer) between(text []string, i, j int, before, after bool) {
	head, tail := i, j
	if before {
		head = min(i+surroundings, j)
	}
	if after {
		tail = max(j-surroundings, i)
	}
	if before && after && j-i <= 2*surroundings || head >= tail {
		head, tail = j, j
	}
	for n := i; n < head; n++ {
		p.line(' ', n+1, text[n])
	}
	if head < tail {
		p.lines = append(p.lines, " "+strings.Repeat(" ", p.width)+" ...")
	}
	for n := tail; n < j; n++ {
		p.line(' ', n+1, text[n])
	}
}
