package truncate

import (
	"bytes"
	"unicode/utf8"
)

// Tail collects the end of a stream of UTF-8. Create one with [NewTail].
type Tail struct {
	totals   Result
	buf      []byte // at least the last MaxBytes+1 bytes
	lastLine int64  // bytes after the last LF
	prevLine int64  // bytes of the line before that
}

// NewTail returns a collector that shows at most maxLines lines and maxBytes bytes.
func NewTail(maxLines, maxBytes int64) *Tail {
	return &Tail{totals: Result{TotalLines: 1, MaxLines: maxLines, MaxBytes: maxBytes}}
}

// Write adds the next part of the stream. It does not keep p.
func (t *Tail) Write(p []byte) {
	t.totals.TotalBytes += int64(len(p))
	t.totals.TotalLines += int64(bytes.Count(p, []byte{'\n'}))
	t.measure(p)
	window := int(t.totals.MaxBytes) + 1
	t.buf = append(t.buf, p...)
	if len(t.buf) > 2*window {
		t.buf = append(t.buf[:0], t.buf[len(t.buf)-window:]...)
	}
}

// measure updates the lengths of the last two lines.
func (t *Tail) measure(p []byte) {
	last := bytes.LastIndexByte(p, '\n')
	if last < 0 {
		t.lastLine += int64(len(p))
		return
	}
	if before := bytes.LastIndexByte(p[:last], '\n'); before >= 0 {
		t.prevLine = int64(last - before - 1)
	} else {
		t.prevLine = t.lastLine + int64(last)
	}
	t.lastLine = int64(len(p) - last - 1)
}

func (t *Tail) finalLF() bool { return t.lastLine == 0 && t.totals.TotalLines > 1 }

// Exceeded reports whether the stream so far exceeds the limits.
func (t *Tail) Exceeded() bool { return !t.totals.fits(t.finalLF()) }

// Result returns the part of the stream so far that fits the limits: whole lines, or the end of the last line if even
// that is too long. The empty line after a final LF is not the last line in this sense: the end of a long line that
// ends in LF is shown, too.
func (t *Tail) Result() Result {
	r := t.totals
	if r.fits(t.finalLF()) {
		return r.whole(t.buf)
	}
	data := t.buf
	if window := int(r.MaxBytes) + 1; len(data) > window {
		data = data[len(data)-window:]
	}
	start, lines := len(data), int64(0)
	for pos := len(data); lines < r.MaxLines; lines++ {
		i := bytes.LastIndexByte(data[:pos], '\n')
		if i < 0 && int64(len(data)) < r.TotalBytes || int64(len(data)-i-1) > r.MaxBytes {
			if start == len(data) {
				return t.partial(r, data, lines+1)
			}
			return r.cut(ByBytes, data[start:], lines)
		}
		start, pos = i+1, i
		if i < 0 {
			lines++
			break
		}
	}
	return r.cut(ByLines, data[start:], lines)
}

// partial returns the end of the last line that is not empty. lines is 2 if an empty line follows it, otherwise 1.
func (t *Tail) partial(r Result, data []byte, lines int64) Result {
	data = data[int64(len(data))-r.MaxBytes:]
	for len(data) > 0 && !utf8.RuneStart(data[0]) {
		data = data[1:]
	}
	r = r.cut(ByBytes, data, lines)
	r.LastLinePartial, r.LineBytes = true, t.lastLine
	if lines == 2 {
		r.LineBytes = t.prevLine
	}
	return r
}
