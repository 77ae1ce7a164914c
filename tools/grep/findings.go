package grep

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools/internal/listing"
	"github.com/loopbus/loopbus/tools/internal/truncate"
	"github.com/loopbus/loopbus/tools/internal/utf8text"
)

// maxChars is the largest number of UTF-16 code units of a line that are shown.
const maxChars = 500

// findings collects the lines to show. It keeps only the part that may be shown and the lines around the current match,
// however many matches there are.
type findings struct {
	limit   int64
	context int
	matches int64
	out     *truncate.Head
	written bool
	cutLine bool // a shown line was cut

	name    string      // of the file
	number  int         // of its last line
	window  []shownLine // its last lines, the newest last
	pending []int       // matches whose following lines have not been read yet
}

func newFindings(limit int64, context int) *findings {
	return &findings{limit: limit, context: context, out: truncate.NewHead(truncate.NoLineLimit, truncate.MaxBytes)}
}

// full reports whether a limit has been reached.
func (f *findings) full() bool { return f.matches >= f.limit }

func (f *findings) begin(name string) { f.name, f.number, f.window = name, 0, f.window[:0] }

// line processes the next line of the file, and reports whether more lines are wanted.
func (f *findings) line(ctx context.Context, line []byte, pattern *matcher) (more bool) {
	f.number++
	matched := !f.full() && pattern.match(ctx, line)
	if matched {
		f.matches++
		f.pending = append(f.pending, f.number)
	}
	if f.context > 0 || matched {
		f.remember(line)
	}
	for len(f.pending) > 0 && f.number >= f.pending[0]+f.context {
		f.block()
	}
	return !f.full() || len(f.pending) > 0
}

// end shows the matches at the end of the file, which have fewer following lines than wanted.
func (f *findings) end() {
	for len(f.pending) > 0 {
		f.block()
	}
}

// remember appends a line to the window, and drops lines that no block needs.
func (f *findings) remember(line []byte) {
	if keep := 2*f.context + 1; len(f.window) >= 2*keep {
		f.window = append(f.window[:0], f.window[len(f.window)-keep+1:]...)
	}
	f.window = append(f.window, show(line))
}

// block shows the first pending match with the lines around it.
func (f *findings) block() {
	match := f.pending[0]
	f.pending = f.pending[1:]
	first := f.number - len(f.window) + 1 // number of the oldest line kept
	for n := max(match-f.context, first); n <= min(match+f.context, f.number); n++ {
		mark := "-"
		if n == match {
			mark = ":"
		}
		line := f.window[n-first]
		f.write(f.name + mark + strconv.Itoa(n) + mark + " " + line.text)
		f.cutLine = f.cutLine || line.cut
	}
}

func (f *findings) write(line string) {
	if f.written {
		line = "\n" + line
	}
	f.written = true
	f.out.Write([]byte(line))
}

// A shownLine is a line as it is shown: decoded, without carriage returns, and cut if it is long.
type shownLine struct {
	text string
	cut  bool
}

func show(line []byte) shownLine {
	const most = 8 * maxChars // bytes, more than so many units ever have
	long := len(line) > most
	if long {
		line = line[:most]
	}
	text := strings.ReplaceAll(string(utf8text.Bytes(line)), "\r", "")
	units := 0
	for i, r := range text {
		if units += utf16.RuneLen(r); units > maxChars {
			return shownLine{text[:i] + "... [truncated]", true}
		}
	}
	if long {
		text += "... [truncated]"
	}
	return shownLine{text, long}
}

type details struct {
	MatchLimitReached int64            `json:"matchLimitReached,omitempty"`
	Truncation        *truncate.Result `json:"truncation,omitempty"`
	LinesTruncated    bool             `json:"linesTruncated,omitempty"`
}

func (f *findings) result() (schemas.ToolResult, error) {
	if f.matches == 0 {
		return schemas.TextResult("No matches found"), nil
	}
	var notices []string
	var d details
	if f.full() {
		notices = append(notices, fmt.Sprintf("%d matches limit reached. Use limit=%d for more, or refine pattern", f.limit,
			2*f.limit))
		d.MatchLimitReached = f.limit
	}
	cut := f.out.Result()
	if cut.Truncated {
		notices = append(notices, listing.BytesNotice())
		d.Truncation = &cut
	}
	if f.cutLine {
		notices = append(notices, fmt.Sprintf("Some lines truncated to %d chars. Use read tool to see full lines", maxChars))
		d.LinesTruncated = true
	}
	return listing.Result(cut.Content, notices, d)
}
