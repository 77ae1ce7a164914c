package edit

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

const (
	// surroundings is how many unchanged lines are shown before and after a change.
	surroundings = 4
	// maxLines limits the lines that are compared: those of both texts after the first that differs and, if they are more,
	// before the last that differs. Each takes memory beside its text.
	maxLines = 1 << 19
	// maxDiff limits the bytes of a diff, which is more than people read.
	maxDiff = 1 << 20
)

// diff returns the differences between two texts, with line numbers, for people. first is the number of the first line
// of the new text that differs, 0 if none does. What exceeds maxDiff is left out.
func diff(old, new []byte) (text string, first int) {
	p := printer{width: len(strconv.Itoa(max(bytes.Count(old, lineEnd), bytes.Count(new, lineEnd)) + 1))}
	head := commonStart(old, new)
	p.skipped = bytes.Count(old[:head], lineEnd)
	old, new = old[head:], new[head:]
	if bytes.Count(old, lineEnd)+bytes.Count(new, lineEnd) > maxLines {
		tail := commonEnd(old, new)
		old, new = old[:len(old)-tail], new[:len(new)-tail]
	}
	before, after := split(old), split(new)
	changes := difference(before, after)
	if len(changes) == 0 {
		return "", 0
	}
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
	p.between(before, shown, len(before), true, false)
	return p.text(), p.skipped + changes[0].k + 1
}

var lineEnd = []byte{'\n'}

// commonStart returns the length of the lines at the start of two texts that are the same and need not be compared
// again. The last of them are left, because they are shown.
func commonStart(a, b []byte) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	for range surroundings + 2 {
		if n = bytes.LastIndexByte(a[:n], '\n'); n < 0 {
			return 0
		}
	}
	return n + 1
}

// commonEnd is the same for the lines at the end.
func commonEnd(a, b []byte) int {
	n := 0
	for n < min(len(a), len(b)) && a[len(a)-1-n] == b[len(b)-1-n] {
		n++
	}
	for range surroundings + 2 {
		i := bytes.IndexByte(a[len(a)-n:], '\n')
		if i < 0 {
			return 0
		}
		n -= i + 1
	}
	return n
}

// split splits a text after each line end, so that a last line with a line end differs from the same line without. What
// exceeds maxLines is one line.
func split(text []byte) [][]byte {
	list := bytes.SplitAfterN(text, lineEnd, min(bytes.Count(text, lineEnd)+1, maxLines))
	if len(list[len(list)-1]) == 0 {
		list = list[:len(list)-1]
	}
	return list
}

type printer struct {
	width   int // of a line number
	skipped int // unchanged lines at the start that are not compared
	out     strings.Builder
	full    bool
}

func (p *printer) line(sign byte, number int, text []byte) {
	p.write(fmt.Sprintf("\n%c%*d ", sign, p.width, p.skipped+number), bytes.TrimSuffix(text, lineEnd))
}

// write appends a line, or the dots that stand for all that there is no room for.
func (p *printer) write(head string, text []byte) {
	switch {
	case p.full:
	case p.out.Len()+len(head)+len(text) > maxDiff:
		p.full = true
		p.out.WriteString(p.dots())
	default:
		p.out.WriteString(head)
		p.out.Write(text)
	}
}

func (p *printer) dots() string { return "\n " + strings.Repeat(" ", p.width) + " ..." }

func (p *printer) text() string { return strings.TrimPrefix(p.out.String(), "\n") }

// between writes the unchanged lines i to j: those next to a change before or after them, and dots for the rest.
func (p *printer) between(text [][]byte, i, j int, before, after bool) {
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
		p.write(p.dots(), nil)
	}
	for n := tail; n < j; n++ {
		p.line(' ', n+1, text[n])
	}
}
