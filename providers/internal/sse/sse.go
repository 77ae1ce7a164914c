// Package sse reads server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html) as vendors send
// them.
//
// It replaces the decoders of the vendors' SDKs, which lose a last event that no blank line follows, do not accept a
// bare CR as the end of a line, or treat a comment as an error. It returns the raw lines of an event too, because
// vendors differ in how they use the format.
package sse

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/loopbus/loopbus/providers/internal/held"
	"github.com/loopbus/loopbus/schemas"
)

// MaxEvent is the maximum length of an event in bytes. The longest events of vendors repeat a whole reply. An event may
// have at most [schemas.MaxReplyValues] JSON values.
const MaxEvent = 16 << 20

// keptBuffer is how many bytes of buffer a decoder keeps between events.
const keptBuffer = 16 << 10

// readAhead is how many bytes of the input a decoder reads at once, about what a response has at once.
const readAhead = 8 << 10

// ErrTooLong is the error of an event that is longer than [MaxEvent].
var ErrTooLong = schemas.NewFailure(schemas.FailureTooLarge, "server-sent event is too long")

// An Event is one block of lines. Its slices are valid until the next call of [Decoder.Next].
type Event struct {
	Name         string // value of its event field; empty if it has none
	Data         []byte // its data lines, joined by line feeds; nil if it has none
	Raw          []byte // all its lines, each terminated by a line feed
	Unterminated bool   // reports whether the input ended before the event's blank line
}

// A Decoder reads events from a body. It is not safe for concurrent use.
type Decoder struct {
	in     *bufio.Reader
	raw    []byte
	data   []byte // data lines, joined, of an event with more than one
	joined bool   // data has those of the current event
	name   string
	skipLF bool // the previous line ended in CR, which may be the first half of CRLF
	begun  bool // a byte order mark has been skipped, if there was one
	share  *held.Share
	room   int // length of raw up to which share holds raw and data
}

// NewDecoder returns a decoder that reads from r, and whose long events are counted in share. It reads ahead, but never
// waits for more input than it needs. The caller has to call [Decoder.Close] at the end.
func NewDecoder(r io.Reader, share *held.Share) *Decoder {
	return &Decoder{in: bufio.NewReaderSize(r, readAhead), share: share, room: keptBuffer / 2}
}

// Close returns the memory of long events to the budget of all replies. Decoding must not continue.
func (d *Decoder) Close() { d.share.Release() }

// hold makes room for a longer event: raw, and data, which may be as long. Raw grows by doubling, which leaves a fifth
// of the garbage that append would.
func (d *Decoder) hold() error {
	d.room *= 2
	if err := d.share.Hold(2 * d.room); err != nil {
		return err
	}
	if cap(d.raw) <= d.room {
		d.raw = append(make([]byte, 0, d.room+1), d.raw...) // and the line feed at the end of the longest event
	}
	return nil
}

// Next returns the next event. It skips blocks that are only comments, but returns blocks without data, which have a
// nil Data. At the end of the input it returns io.EOF. If an event is too long, or would use too much memory when
// decoded, the error has the code too_large; if all replies together use too much, overloaded. Other errors of the
// reader are returned unchanged, and the part of the event before them is lost.
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

// check limits the JSON values of what a caller may decode: Data, and Raw if it begins like a JSON object.
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
		d.raw, d.data = nil, nil
		d.share.Release()
		d.room = keptBuffer / 2
	}
	d.raw, d.data, d.joined = d.raw[:0], d.data[:0], false
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

// field parses a line. One space after the colon is not part of the value.
func (d *Decoder) field(e *Event, line []byte) {
	name, value, found := bytes.Cut(line, []byte{':'})
	if !found {
		value = line[len(line):] // empty, and not nil
	}
	value = bytes.TrimPrefix(value, []byte{' '})
	switch string(name) {
	case "data":
		if e.Data == nil {
			e.Data = value[:len(value):len(value)] // a part of raw: most events have one data line
			return
		}
		if !d.joined {
			d.data, d.joined = append(d.data, e.Data...), true
		}
		d.data = append(append(d.data, '\n'), value...)
		e.Data = d.data
	case "event":
		if d.name != string(value) {
			d.name = string(value) // most events have the previous event's name, so this rarely allocates
		}
		e.Name = d.name
	}
}

// line appends the next line to raw, terminated by a line feed whatever its original terminator. At the end of the
// input it appends the rest, which may be empty, and returns io.EOF.
func (d *Decoder) line() error {
	if !d.begun {
		d.begun = true
		if mark, _ := d.in.Peek(3); string(mark) == "\uFEFF" {
			_, _ = d.in.Discard(3)
		}
	}
	for {
		if len(d.raw) >= d.room {
			if err := d.hold(); err != nil {
				return err
			}
		}
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
