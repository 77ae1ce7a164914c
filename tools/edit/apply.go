package edit

import (
	"bytes"
	"context"
	"strings"

	"github.com/loopbus/loopbus/tools"
)

const byteOrderMark = "\uFEFF"

// An outcome is a file after its edits.
type outcome struct {
	content  []byte
	old, new []byte // the text before and after, lines ended by LF, without the byte order mark
}

// apply applies edits to the content of a file. Each edit is searched for in the original content, not in the result of
// other edits. Everything else stays byte for byte: byte order mark, line ends, blanks, and bytes that are not UTF-8.
func apply(ctx context.Context, path string, content []byte, edits []replacement) (outcome, error) {
	raw := bytes.TrimPrefix(content, []byte(byteOrderMark))
	edits = append([]replacement(nil), edits...)
	for i, e := range edits {
		edits[i] = replacement{toLF(e.OldText), toLF(e.NewText)}
	}
	text, ok := lines(raw)
	if !ok {
		return outcome{}, tools.Failf("Could not edit file: %s. It has more than %d lines that end in CR LF, or characters "+
			"that are not UTF-8. Use another tool, such as sed.", path, maxParts)
	}
	s := newSearch(path, text)
	found, folded, err := s.find(ctx, edits)
	if err != nil {
		return outcome{}, err
	}
	base := s.text.text
	if folded {
		base = s.folded.text
	}
	mark := content[:len(content)-len(raw)]
	changed, err := s.splice(ctx, mark, raw, found, folded)
	if err != nil {
		return outcome{}, err
	}
	if bytes.Equal(changed, content) || same(base, found) {
		return outcome{}, noChange(path, len(edits))
	}
	return outcome{changed, s.text.text, linesText(changed[len(mark):])}, nil
}

// splice inserts the new texts into the bytes of the file, after its byte order mark. It returns an error if places
// overlap: folding can turn one character into several, so that one character is part of two matches that do not
// overlap in the folded text.
func (s search) splice(ctx context.Context, mark, raw []byte, found []match, folded bool) ([]byte, error) {
	size := len(mark) + len(raw)
	for _, m := range found {
		size += len(m.newText) + strings.Count(m.newText, "\n") // CR LF is longer
	}
	changed := append(make([]byte, 0, size), mark...)
	done := 0
	for i, m := range found {
		if err := tools.Interrupted(ctx); err != nil { // the next line break may be far
			return nil, err
		}
		at := s.place(m, folded)
		if at.from < done {
			return nil, overlap(s.path, found[i-1].edit, m.edit)
		}
		changed = append(changed, raw[done:at.from]...)
		changed = append(changed, at.before...)
		changed = append(changed, withBreaks(m.newText, raw, at)...)
		changed = append(changed, at.after...)
		done = at.to
	}
	return append(changed, raw[done:]...), nil
}

// place returns the position of a match in the file.
func (s search) place(m match, folded bool) span {
	if !folded {
		return s.text.span(m.at, m.end)
	}
	at := s.folded.span(m.at, m.end)
	in := s.text.span(at.from, at.to)
	in.before, in.after = at.before, at.after
	return in
}

// withBreaks gives the lines of a new text the line ends of the lines that it replaces. Added lines end like the last
// replaced line or, if no line end is replaced, like the line that contains the place.
func withBreaks(text string, raw []byte, at span) string {
	if !strings.Contains(text, "\n") {
		return text
	}
	there, end := raw[at.from:at.to], ""
	var b strings.Builder
	for {
		line, rest, more := strings.Cut(text, "\n")
		b.WriteString(line)
		if !more {
			return b.String()
		}
		var next string
		if next, there = nextBreak(there); next != "" {
			end = next
		} else if end == "" {
			end = nearestBreak(raw, at)
		}
		b.WriteString(end)
		text = rest
	}
}

// nextBreak returns the first line end in a text and what follows it, "" and nothing if there is none.
func nextBreak(raw []byte) (end string, after []byte) {
	i := bytes.IndexAny(raw, "\r\n")
	switch {
	case i < 0:
		return "", nil
	case raw[i] == '\n':
		return "\n", raw[i+1:]
	case bytes.HasPrefix(raw[i+1:], []byte("\n")):
		return "\r\n", raw[i+2:]
	}
	return "\r", raw[i+1:]
}

// nearestBreak returns the end of the line that contains a place, or of the previous line if that line is the last.
func nearestBreak(raw []byte, at span) string {
	i := bytes.IndexByte(raw[at.to:], '\n') + at.to
	if i < at.to {
		i = bytes.LastIndexByte(raw[:at.from], '\n')
	}
	if i > 0 && raw[i-1] == '\r' {
		return "\r\n"
	}
	return "\n"
}

// same reports whether the searched text stays the same when the matches are replaced by the new texts.
func same(base []byte, found []match) bool {
	done, rest := 0, base
	next := func(piece []byte) (ok bool) {
		ok = bytes.HasPrefix(rest, piece)
		rest = rest[min(len(piece), len(rest)):]
		return ok
	}
	for _, m := range found {
		if !next(base[done:m.at]) || !next([]byte(m.newText)) {
			return false
		}
		done = m.end
	}
	return next(base[done:]) && len(rest) == 0
}

func toLF(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
}
