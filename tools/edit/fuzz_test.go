package edit

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"unicode/utf8"
)

// Where an edit applies, the file says what was asked for, once folded if it was found so; and the rest of the file is
// as it was.
func FuzzApply(f *testing.F) {
	for _, seed := range [][3]string{
		{"one\r\ntwo\nthree\r", "two\nthree", "2"}, {"keep   \none  \ntwo\t\nlast ", "one\ntwo", "1\n2"},
		{"say “hi”\nit’s", "\"hi\"", "x"}, {"ﬁre cafe\u0301 ①", "ire caf", "y"}, {"\xff\xe2\x82a\u00a0b ", "\uFFFDa b", "\n"},
		{"\uFEFFa\u0300\u0301  \r\n", "\u00e0\u0301\n", ""}, {"각\u11a8 \n x", "각", "z"}, {"a   b", "   ", " "},
		{"ﬁre 0", "ire ", "0"},
	} {
		f.Add([]byte(seed[0]), seed[1], seed[2])
	}
	f.Fuzz(func(t *testing.T, content []byte, oldText, newText string) {
		if !utf8.ValidString(oldText) || !utf8.ValidString(newText) {
			return // arguments are JSON
		}
		o, err := apply(t.Context(), "f", content, []replacement{{oldText, newText}})
		if err != nil {
			return
		}
		raw, _ := bytes.CutPrefix(content, []byte(byteOrderMark))
		text, _ := lines(raw)
		s := newSearch("f", text)
		found, folded, err := s.find(t.Context(), []replacement{{toLF(oldText), toLF(newText)}})
		if err != nil || len(found) != 1 {
			t.Fatalf("applied, but found %v, %v", found, err)
		}
		at := s.place(found[0], folded)
		there := shown(raw[at.from:at.to])
		asked := toLF(oldText)
		if folded {
			asked = at.before + string(s.folded.text[found[0].at:found[0].end]) + at.after
			there = foldPiece(there, asked)
		}
		if there != asked {
			t.Errorf("%q says %q, not %q", raw[at.from:at.to], there, asked)
		}
		result, _ := bytes.CutPrefix(o.content, []byte(byteOrderMark))
		if !bytes.HasPrefix(result, raw[:at.from]) || !bytes.HasSuffix(result, raw[at.to:]) {
			t.Errorf("%q became %q", content, o.content)
		}
		if middle := shown(result[at.from : len(result)-len(raw)+at.to]); middle != at.before+toLF(newText)+at.after &&
			utf8.Valid(raw) {
			t.Errorf("%q was put in for %q", middle, newText)
		}
	})
}

// foldPiece folds a piece of a file that shall say what was asked for. Blanks at the end of a line fold away; what was
// asked for ends in some only if the line goes on behind the piece.
func foldPiece(piece, asked string) string {
	const rest = "|"
	if !strings.HasSuffix(asked, " ") && !strings.HasSuffix(asked, "\t") {
		return folded(piece)
	}
	return strings.TrimSuffix(folded(piece+rest), rest)
}

func folded(text string) string {
	v, _ := fold([]byte(text))
	return string(v.text)
}

// shown is what a model sees of bytes. Both ways to get it are the same.
func shown(raw []byte) string {
	if v, ok := lines(raw); !ok || !bytes.Equal(v.text, linesText(raw)) {
		panic("the text differs from that of its lines")
	}
	return string(linesText(raw))
}

// A difference makes the new text of the old one, and says nothing more than it must where little changes.
func FuzzDifference(f *testing.F) {
	f.Add("a\nb\nc\n", "b\nd\nc")
	f.Add("", "x\n")
	f.Fuzz(func(t *testing.T, old, new string) {
		if strings.Count(old, "\n")+strings.Count(new, "\n") > 300 {
			return
		}
		before, after := split([]byte(old)), split([]byte(new))
		var b strings.Builder
		done, length := 0, 0
		for _, c := range difference(before, after) {
			b.WriteString(string(bytes.Join(before[done:c.i], nil)))
			b.WriteString(string(bytes.Join(after[c.k:c.l], nil)))
			done = c.j
			length += c.j - c.i + c.l - c.k
		}
		b.WriteString(string(bytes.Join(before[done:], nil)))
		if b.String() != new {
			t.Fatalf("%q to %q became %q", old, new, b.String())
		}
		if want := distance(before, after); length != want {
			t.Errorf("%q to %q: %d lines, %d are enough", old, new, length, want)
		}
	})
}

// distance is how many lines have to be taken away and added, by the table of all beginnings.
func distance(old, new [][]byte) int {
	row := make([]int, len(new)+1)
	for j := range row {
		row[j] = j
	}
	for i := range old {
		diagonal := row[0]
		row[0]++
		for j := range new {
			best := min(row[j+1], row[j]) + 1
			if bytes.Equal(old[i], new[j]) {
				best = diagonal
			}
			diagonal, row[j+1] = row[j+1], best
		}
	}
	return row[len(new)]
}

// What is too different to be compared line by line is one change.
func TestDifferenceOfStrangers(t *testing.T) {
	text := func(line string) [][]byte {
		return split([]byte("same\n" + strings.Repeat(line, maxDistance) + "end\n"))
	}
	got := difference(text("old\n"), text("new\n"))
	if len(got) != 1 || got[0] != (change{1, maxDistance + 1, 1, maxDistance + 1}) {
		t.Errorf("got %v", got)
	}
}

// Many edits of a large file take long: whoever aborts the call need not wait for that.
func TestAbortWhileSearching(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := apply(ctx, "f", []byte("a"), []replacement{{"a", "b"}})
	if err == nil || err.Error() != "Operation aborted" {
		t.Errorf("got %v", err)
	}
}
