// Package truncate cuts what tools show to the size a model can use: whole lines from the start or the end of a text,
// up to a number of lines and of bytes, whichever comes first.
//
// Lines are separated by LF alone. The empty text after a final LF has a number, as in an editor, and counts in totals,
// but is no reason to cut. Both collectors take a stream and hold only what they may show, however long the stream is.
package truncate

import "strconv"

// The limits of every tool unless it says otherwise.
const (
	MaxLines = 2000
	MaxBytes = 50 << 10
	// NoLineLimit is what a tool without a line limit reports as one: the largest integer every JSON reader keeps.
	NoLineLimit = 1<<53 - 1
)

// The values of [Result.TruncatedBy].
const (
	ByLines = "lines"
	ByBytes = "bytes"
)

// Result is a text after the cut and how it came about: the member "truncation" of a tool result's details.
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

	// LineBytes is how long the line is that did not fit: the first one if FirstLineExceedsLimit, the one shown in part
	// if LastLinePartial.
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

// fits reports whether nothing needs to be cut. The empty text after a final LF is no line to be cut for.
func (r Result) fits(finalLF bool) bool {
	lines := r.TotalLines
	if finalLF {
		lines--
	}
	return lines <= r.MaxLines && r.TotalBytes <= r.MaxBytes
}

// Size writes a number of bytes for people: 12B, 50.0KB, 1.5MB. Halves are rounded up.
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
