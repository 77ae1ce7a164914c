// Package sse reads server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html) as vendors send
// them.
//
// It stands in for the decoders of the vendors' SDKs, which lose a last event that no blank line follows, know no bare
// CR as the end of a line, or take a comment for an error. It tells its caller what an event looked like, because
// vendors differ in what they make of it.
package sse

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/loopbus/loopbus/schemas"
)

// MaxEvent is how long an event may be, in bytes. The longest that vendors send repeat a whole reply. It may have
// [schemas.MaxReplyValues] JSON values.
const MaxEvent = 16 << 20

// keptBuffer is how much memory stays with a decoder between events.
const keptBuffer = 256 << 10

// ErrTooLong says that an event is longer than [MaxEvent].
var ErrTooLong = schemas.NewFailure(schemas.FailureTooLarge, "server-sent event is too long")

// An Event is one block of lines. Its slices are valid until the next call of [Decoder.Next].
type Event struct {
	Name         string // of its event field; empty if it has none
	Data         []byte // its data lines, joined by line feeds; nil if it has none
	Raw          []byte // all its lines, each ended by a line feed
	Unterminated bool   // the input ended without the blank line behind it
}

// A Decoder reads events from a body. It is not safe for concurrent use.
type Decoder struct {
	in     *bufio.Reader
	raw    []byte
	data   []byte // never nil
	name   string
	skipLF bool // the line before ended in CR, which may be half a CRLF
	begun  bool // the byte order mark has been looked for
}

// NewDecoder returns a decoder of r. It reads ahead, but never waits for more than it needs.
func NewDecoder(r io.Reader) *Decoder {
	return &Decoder{in: bufio.NewReaderSize(r, 32<<10), data: []byte{}}
}

// Next returns the next block of lines that is more than comments; a caller that wants data checks whether there is
// some. At the regular end of the input the error is io.EOF. An event that is too long, or would take too much memory
// once decoded, is an error with the code too_large. Any other error of the reader is returned as it is, and what was
// read of an event before it is lost.
func (d *Decoder) Next() (Event, error) {
	for {
		e, err := d.block()
		if err != nil {
			return Event{}, err
		}
		if e.Data != nil || e.Name != "" || e.Raw[0] != ':' {
			return e, e.check()
		}
	}
}

// check counts the values of what a caller may decode: the data, or all of it where it begins as JSON does.
func (e Event) check() error {
	const what = "server-sent event"
	if err := schemas.CheckValues(what, e.Data, schemas.MaxReplyValues); err != nil || e.Raw[0] != '{' {
		return err
	}
	return schemas.CheckValues(what, e.Raw, schemas.MaxReplyValues)
}

// block reads lines up to a blank one. It returns at least one line.
func (d *Decoder) block() (Event, error) {
	var e Event
	if cap(d.raw) > keptBuffer {
		d.raw, d.data = nil, []byte{}
	}
	d.raw, d.data = d.raw[:0], d.data[:0]
	for {
		start := len(d.raw)
		err := d.line()
		if err != nil && !errors.Is(err, io.EOF) {
			return Event{}, err
		}
		line := bytes.TrimSuffix(d.raw[start:], []byte{'\n'})
		if len(line) > 0 {
			d.field(&e, line)
		} else {
			d.raw = d.raw[:start]
		}
		e.Raw, e.Unterminated = d.raw, err != nil
		switch {
		case len(d.raw) == 0 && err != nil:
			return Event{}, err
		case len(d.raw) > 0 && (err != nil || len(line) == 0):
			return e, nil
		}
	}
}

// field takes in a line. One space behind the colon belongs to neither side.
func (d *Decoder) field(e *Event, line []byte) {
	name, value, found := bytes.Cut(line, []byte{':'})
	if found && len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	switch string(name) {
	case "data":
		if e.Data != nil {
			d.data = append(d.data, '\n')
		}
		d.data = append(d.data, value...)
		e.Data = d.data
	case "event":
		if d.name != string(value) {
			d.name = string(value) // most events have the name of the one before
		}
		e.Name = d.name
	}
}

// line appends the next line to raw, ended by a line feed whatever ended it. At the end of the input the rest may be
// empty, and the error is io.EOF.
func (d *Decoder) line() error {
	if !d.begun {
		d.begun = true
		if mark, _ := d.in.Peek(3); string(mark) == "\uFEFF" {
			_, _ = d.in.Discard(3)
		}
	}
	for {
		c, err := d.in.ReadByte()
		if err != nil {
			return err
		}
		skipLF := d.skipLF
		d.skipLF = c == '\r'
		switch {
		case c == '\n' && skipLF:
		case c == '\n' || c == '\r':
			d.raw = append(d.raw, '\n')
			return nil
		case len(d.raw) >= MaxEvent:
			return fmt.Errorf("%w: over %d bytes", ErrTooLong, MaxEvent)
		default:
			d.raw = append(d.raw, c)
		}
	}
}
