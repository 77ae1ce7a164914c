package headerlimit

import (
	"bytes"
	"errors"
	"io"
	"strconv"
)

const (
	readSize = 32 << 10 // what is read at once, as by nats.go
	mostLine = 1 << 20  // bytes of a line of the protocol: INFO has the URLs of a cluster
	crlf     = 2        // bytes at the end of a payload
)

var (
	errLine  = errors.New("a line of the NATS protocol is too long")
	errSizes = errors.New("a line of the NATS protocol has no sizes")
)

// A Reader reads what a NATS server sends, and replaces the headers of messages that have too many. It copies nothing
// twice but what it has to look at. Only one goroutine may use it.
type Reader struct {
	from io.Reader
	buf  []byte
	// buf[begin:seen] is to be handed out, buf[seen:end] was not looked at.
	begin, seen, end int
	stub             []byte // to be handed out after that
	drop             int    // bytes behind seen that the stub replaces
	pass             int    // bytes behind these that are a payload
}

// NewReader returns a Reader of what a server sends: first what was read already, which the Reader keeps, then from.
func NewReader(read []byte, from io.Reader) *Reader {
	return &Reader{from: from, buf: read, end: len(read)}
}

// Read implements [io.Reader].
func (r *Reader) Read(p []byte) (int, error) {
	for {
		switch {
		case r.begin < r.seen:
			n := copy(p, r.buf[r.begin:r.seen])
			r.begin += n
			return n, nil
		case len(r.stub) > 0:
			n := copy(p, r.stub)
			r.stub = r.stub[n:]
			return n, nil
		case r.seen == r.end && r.drop == 0 && r.pass > 0: // a large payload need not go through buf
			n, err := r.from.Read(p[:min(len(p), r.pass)])
			r.pass -= n
			return n, err
		}
		more, err := r.look()
		if err == nil && more {
			err = r.fill()
		}
		if err != nil {
			return 0, err
		}
	}
}

// look looks at what was read, as far as it can. It reports whether it needs more of it.
func (r *Reader) look() (more bool, err error) {
	for r.seen < r.end {
		rest := r.buf[r.seen:r.end]
		switch {
		case r.drop > 0 && r.begin < r.seen:
			return false, nil // what comes before is handed out first
		case r.drop > 0:
			n := min(r.drop, len(rest))
			r.drop -= n
			r.seen += n
			r.begin = r.seen
		case r.pass > 0:
			n := min(r.pass, len(rest))
			r.pass -= n
			r.seen += n
		default:
			if more, err = r.message(rest); more || err != nil || len(r.stub) > 0 {
				return more && r.begin == r.seen, err
			}
		}
	}
	return r.begin == r.seen, nil
}

// message looks at a line of the protocol, and at the header of a message. It reports whether it needs more.
func (r *Reader) message(rest []byte) (more bool, err error) {
	n := bytes.IndexByte(rest, '\n') + 1
	if n == 0 {
		if len(rest) > mostLine {
			err = errLine
		}
		return true, err
	}
	line := rest[:n]
	switch {
	case bytes.HasPrefix(line, []byte("MSG ")):
		_, size, ok := lastNumber(line)
		if !ok {
			return false, errSizes
		}
		r.pass = size + crlf
	case bytes.HasPrefix(line, []byte("HMSG ")):
		before, size, ok := lastNumber(line)
		before, header, found := lastNumber(before)
		if !ok || !found || header > size {
			return false, errSizes
		}
		block := rest[n:min(n+header, len(rest))]
		if len(block) < header && header <= MostBytes {
			return true, nil
		}
		if Refused(block) || header > MostBytes {
			r.replace(before, block, n, header, size)
			return false, nil
		}
		n += header
		r.pass = size - header + crlf
	}
	r.seen += n
	return false, nil
}

// replace has a stub handed out in place of a line of n bytes and the header behind it. The line begins with before. A
// header of more than MostBytes comes from no stream, and may not be there as a whole: nothing of it is kept.
func (r *Reader) replace(before, block []byte, n, header, size int) {
	if header > MostBytes {
		block = nil
	}
	s := stub(header, block)
	line := append(bytes.Clone(before), ' ')
	line = append(strconv.AppendInt(line, int64(len(s)), 10), ' ')
	line = append(strconv.AppendInt(line, int64(len(s)+size-header), 10), '\r', '\n')
	r.stub, r.drop, r.pass = append(line, s...), n+header, size-header+crlf
}

// lastNumber splits the number at its end off a line.
func lastNumber(line []byte) (before []byte, n int, ok bool) {
	line = bytes.TrimRight(line, "\r\n \t")
	at := bytes.LastIndexAny(line, " \t")
	if at < 0 {
		return nil, 0, false
	}
	n, err := strconv.Atoi(string(line[at+1:]))
	return bytes.TrimRight(line[:at], " \t"), n, err == nil && n >= 0
}

// fill reads more into buf, which has room for a whole line, or a whole header.
func (r *Reader) fill() error {
	r.end = copy(r.buf, r.buf[r.seen:r.end])
	r.begin, r.seen = 0, 0
	switch {
	case len(r.buf) < readSize || r.end == 0 && len(r.buf) > readSize:
		r.grow(max(readSize, 2*r.end))
	case r.end > len(r.buf)/2:
		r.grow(2 * len(r.buf))
	}
	n, err := r.from.Read(r.buf[r.end:])
	if r.end += n; n > 0 {
		return nil
	}
	return err
}

func (r *Reader) grow(size int) {
	buf := make([]byte, size)
	copy(buf, r.buf[:r.end])
	r.buf = buf
}
