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
	old, new string // the text before and after, lines ended by LF, without the byte order mark
}

// apply applies edits to the content of a file. Each edit is searched for in the original content, not in the result of
// other edits. Everything else stays byte for byte: byte order mark, line ends, blanks, and bytes that are not UTF-8.
func apply(ctx context.Context, path string, content []byte, edits []replacement) (outcome, error) {
	raw, mark := bytes.CutPrefix(content, []byte(byteOrderMark))
	edits = append([]replacement(nil), edits...)
	for i, e := range edits {
		edits[i] = replacement{toLF(e.OldText), toLF(e.NewText)}
	}
	s := newSearch(path, lines(raw))
	found, folded, err := s.find(ctx, edits)
	if err != nil {
		return outcome{}, err
	}
	base := s.text.text
	if folded {
		base = s.folded.text
	}
	changed, err := s.splice(ctx, raw, found, folded)
	if err != nil {
		return outcome{}, err
	}
	if bytes.Equal(changed, raw) || replaced(base, found) == base {
		return outcome{}, noChange(path, len(edits))
	}
	o := outcome{content: changed, old: s.text.text, new: lines(changed).text}
	if mark {
		o.content = append([]byte(byteOrderMark), changed...)
	}
	return o, nil
}

// splice inserts the new texts into the bytes of the file. It returns an error if places overlap: folding can turn one
// character into several, so that one character is part of two matches that do not overlap in the folded text.
func (s search) splice(ctx context.Context, raw []byte, found []match, folded bool) ([]byte, error) {
	changed := make([]byte, 0, len(raw))
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
	there := breaks(raw[at.from:at.to])
	if len(there) == 0 {
		there = append(there, nearestBreak(raw, at))
	}
	var b strings.Builder
	for i := 0; ; i++ {
		line, rest, more := strings.Cut(text, "\n")
		b.WriteString(line)
		if !more {
			return b.String()
		}
		b.WriteString(there[min(i, len(there)-1)])
		text = rest
	}
}

// breaks lists the line ends in a text.
func breaks(raw []byte) (list []string) {
	for i := 0; i < len(raw); i++ {
		switch {
		case raw[i] == '\r' && i+1 < len(raw) && raw[i+1] == '\n':
			list = append(list, "\r\n")
			i++
		case raw[i] == '\r':
			list = append(list, "\r")
		case raw[i] == '\n':
			list = append(list, "\n")
		}
	}
	return list
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

// replaced returns the searched text with the matches replaced by the new texts.
func replaced(base string, found []match) string {
	var b strings.Builder
	done := 0
	for _, m := range found {
		b.WriteString(base[done:m.at])
		b.WriteString(m.newText)
		done = m.end
	}
	b.WriteString(base[done:])
	return b.String()
}

func toLF(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
}
