package truncate

import "bytes"

// Head collects the start of a stream of UTF-8. Create one with [NewHead].
type Head struct {
	totals   Result
	buf      []byte // the first MaxBytes+1 bytes
	firstEnd int64  // length of the first line; -1 while it has not ended
	finalLF  bool   // the last byte so far is LF
}

// NewHead returns a collector that shows at most maxLines lines and maxBytes bytes.
func NewHead(maxLines, maxBytes int64) *Head {
	return &Head{totals: Result{TotalLines: 1, MaxLines: maxLines, MaxBytes: maxBytes}, firstEnd: -1}
}

// Text cuts a complete text, as [Head] does.
func Text(text string, maxLines, maxBytes int64) Result {
	h := NewHead(maxLines, maxBytes)
	h.Write([]byte(text))
	return h.Result()
}

// Write adds the next part of the stream. It does not keep p.
func (h *Head) Write(p []byte) {
	if room := h.totals.MaxBytes + 1 - int64(len(h.buf)); room > 0 {
		h.buf = append(h.buf, p[:min(room, int64(len(p)))]...)
	}
	if h.firstEnd < 0 {
		if i := bytes.IndexByte(p, '\n'); i >= 0 {
			h.firstEnd = h.totals.TotalBytes + int64(i)
		}
	}
	h.totals.TotalBytes += int64(len(p))
	h.totals.TotalLines += int64(bytes.Count(p, []byte{'\n'}))
	if len(p) > 0 {
		h.finalLF = p[len(p)-1] == '\n'
	}
}

// Result returns the part of the stream so far that fits the limits: whole lines only.
func (h *Head) Result() Result {
	r := h.totals
	if r.fits(h.finalLF) {
		return r.whole(h.buf)
	}
	first := h.firstEnd
	if first < 0 {
		first = r.TotalBytes
	}
	if first > r.MaxBytes {
		r = r.cut(ByBytes, nil, 0)
		r.FirstLineExceedsLimit, r.LineBytes = true, first
		return r
	}
	end, lines := 0, int64(0)
	for next := 0; lines < r.MaxLines; lines++ {
		i := bytes.IndexByte(h.buf[next:], '\n')
		if i < 0 && r.TotalBytes > r.MaxBytes || int64(next+i) > r.MaxBytes {
			return r.cut(ByBytes, h.buf[:end], lines)
		}
		if i < 0 { // the last line, which has no LF; not reached if the stream has too many lines
			i = len(h.buf) - next
		}
		end, next = next+i, next+i+1
	}
	return r.cut(ByLines, h.buf[:end], lines)
}
