// Package truncate cuts the output of tools to a size that a model can use: it keeps whole lines from the start or the
// end of a text, up to a number of lines or a number of bytes, whichever is reached first.
//
// Lines are separated by LF alone. The empty text after a final LF is a line, as in an editor: it counts in the totals,
// but a text is not cut because of it. Both collectors read a stream of any length and keep only the part that they may
// show, and a little more.
package truncate

import "strconv"

// The limits of every tool unless it says otherwise.
const (
	MaxLines = 2000
	MaxBytes = 50 << 10
	// NoLineLimit is the MaxLines of a tool without a line limit: the largest integer that every JSON parser represents
	// exactly.
	NoLineLimit = 1<<53 - 1
)

// The values of [Result.TruncatedBy].
const (
	ByLines = "lines"
	ByBytes = "bytes"
)

// Result is a text after the cut, and the reason of the cut. It is the member "truncation" of a tool result's details.
type Result struct {
	Content               string `json:"content"`
	Truncated             bool   `json:"truncated"`
	TruncatedBy           string `json:"truncatedBy"`
	TotalLines            int64  `json:"totalLines"`
	TotalBytes            int64  `json:"totalBytes"`
	OutputLines           int64  `json:"outputLines"`
	OutputBytes           int64  `json:"outputBytes"`
	LastLinePartial       bool   `json:"lastLinePartial"`
	FirstLineExceedsLimit bool   `json:"firstLineExceedsLimit"`
	MaxLines              int64  `json:"maxLines"`
	MaxBytes              int64  `json:"maxBytes"`

	// LineBytes is the length of the line that did not fit: of the first line if FirstLineExceedsLimit, of the line
	// whose end is shown if LastLinePartial.
	LineBytes int64 `json:"-"`
}

func (r Result) whole(content []byte) Result {
	r.Content = string(content)
	r.OutputLines, r.OutputBytes = r.TotalLines, r.TotalBytes
	return r
}

func (r Result) cut(by string, content []byte, lines int64) Result {
	r.Truncated, r.TruncatedBy = true, by
	r.Content = string(content)
	r.OutputLines, r.OutputBytes = lines, int64(len(content))
	return r
}

// fits reports whether the text is within the limits. The empty line after a final LF does not count.
func (r Result) fits(finalLF bool) bool {
	lines := r.TotalLines
	if finalLF {
		lines--
	}
	return lines <= r.MaxLines && r.TotalBytes <= r.MaxBytes
}

// Size formats a number of bytes for people: 12B, 50.0KB, 1.5MB. Halves are rounded up.
func Size(n int64) string {
	switch {
	case n < 1<<10:
		return strconv.FormatInt(n, 10) + "B"
	case n < 1<<20:
		return tenths(n, 1<<10) + "KB"
	}
	return tenths(n, 1<<20) + "MB"
}

func tenths(n, unit int64) string {
	t := (n*10 + unit/2) / unit
	return strconv.FormatInt(t/10, 10) + "." + strconv.FormatInt(t%10, 10)
}
