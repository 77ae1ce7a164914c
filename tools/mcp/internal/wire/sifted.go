package wire

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"io"
)

// Sifted returns server-sent events with the messages that sift returns. What else an event says, such as its id,
// stays.
func Sifted(events io.ReadCloser, sift Sift) io.ReadCloser {
	return &sifted{Closer: events, in: bufio.NewReaderSize(events, 32<<10), sift: sift}
}

type sifted struct {
	io.Closer
	in   *bufio.Reader
	sift Sift
	out  []byte // the part of an event that has not been read
	err  error
}

// Read implements [io.Reader].
func (s *sifted) Read(p []byte) (int, error) {
	for len(s.out) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		s.out, s.err = s.next()
	}
	n := copy(p, s.out)
	s.out = s.out[n:]
	return n, nil
}

// next returns the next event. The last one may end with the stream, like a message that the SDK takes then.
func (s *sifted) next() ([]byte, error) {
	var event []byte
	for start := 0; ; {
		part, err := s.in.ReadSlice('\n')
		event = append(event, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull): // the line goes on
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return nil, err
		case err != nil || len(bytes.TrimRight(event[start:], "\r\n")) == 0:
			event, bad := s.replace(event)
			return event, cmp.Or(bad, err)
		}
		start = len(event)
	}
}

// replace returns an event with the message that sift returns. It leaves an event alone that the SDK does not read as a
// message, or refuses.
func (s *sifted) replace(event []byte) ([]byte, error) {
	var name, data, rest []byte
	for line := range bytes.Lines(event) {
		field, value, found := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(":"))
		value = bytes.TrimSpace(value)
		switch isData := found && string(field) == "data"; {
		case isData && data == nil:
			data = value[:len(value):len(value)] // not copied: it may be large
			continue
		case isData:
			data = append(append(data, '\n'), value...)
			continue
		case string(field) == "event":
			name = value
		}
		rest = append(rest, line...)
	}
	if len(name) > 0 && string(name) != "message" {
		return event, nil
	}
	text, same, err := s.sift.Text(data)
	switch {
	case err != nil:
		return nil, err
	case same:
		return event, nil
	case text == nil:
		return rest, nil
	}
	return append(append(append([]byte("data: "), text...), '\n'), rest...), nil
}
