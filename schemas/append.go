package schemas

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strconv"
)

// A tool turn writes eight events, a request and an answer. Package encoding/json uses an encoder for every value in
// them that encodes itself, and scans the output of each once more. This file writes the same bytes in a quarter of the
// time, which a test compares. Types without an appendJSON method are encoded by the package.

// appender is a value that can be appended as JSON.
type appender interface{ appendJSON(o *object) }

// object appends JSON, member by member.
type object struct {
	b   []byte
	err error
}

// appendValue appends the JSON of v to b.
func appendValue(b []byte, v any) ([]byte, error) {
	if a, ok := v.(appender); ok {
		o := object{b: b}
		a.appendJSON(&o)
		return o.b, o.err
	}
	e := encoders.Get().(*encoder)
	defer e.release()
	if err := e.json.Encode(v); err != nil {
		return b, err
	}
	return append(b, bytes.TrimSuffix(e.buf.Bytes(), []byte("\n"))...), nil
}

func (o *object) open() { o.b = append(o.b, '{') }
func (o *object) end()  { o.b = append(o.b, '}') }

// name begins a member.
func (o *object) name(name string) {
	if o.b[len(o.b)-1] != '{' {
		o.b = append(o.b, ',')
	}
	o.b = append(append(append(o.b, '"'), name...), '"', ':')
}

func (o *object) value(v any) {
	if a, ok := v.(appender); ok {
		a.appendJSON(o)
		return
	}
	b, err := appendValue(o.b, v)
	if o.b = b; err != nil && o.err == nil {
		o.err = err
	}
}

func (o *object) text(name, v string) {
	o.name(name)
	o.b = appendString(o.b, v)
}

// optionalText appends the member unless v is empty. The other optional methods leave out zero values likewise.
func (o *object) optionalText(name, v string) {
	if v != "" {
		o.text(name, v)
	}
}

func (o *object) integer(name string, v int64) {
	o.name(name)
	o.b = strconv.AppendInt(o.b, v, 10)
}

func (o *object) optionalInteger(name string, v int64) {
	if v != 0 {
		o.integer(name, v)
	}
}

func (o *object) flag(name string, v bool) {
	o.name(name)
	o.b = strconv.AppendBool(o.b, v)
}

func (o *object) optionalFlag(name string, v bool) {
	if v {
		o.flag(name, v)
	}
}

// money appends a number that is mostly 0, a whole number.
func (o *object) money(name string, v float64) {
	o.name(name)
	if v == math.Trunc(v) && math.Abs(v) < MaxInteger && !(v == 0 && math.Signbit(v)) {
		o.b = strconv.AppendInt(o.b, int64(v), 10)
		return
	}
	o.value(v)
}

// raw appends JSON that another program has written. It fails if v is not JSON.
func (o *object) raw(name string, v json.RawMessage) {
	o.name(name)
	if v == nil {
		o.b = append(o.b, "null"...)
		return
	}
	buf := bytes.NewBuffer(o.b)
	if err := json.Compact(buf, v); err != nil && o.err == nil {
		o.err = errors.New("schemas: " + name + " is not JSON: " + err.Error())
	}
	o.b = buf.Bytes()
}

func (o *object) optionalRaw(name string, v json.RawMessage) {
	if len(v) > 0 {
		o.raw(name, v)
	}
}

// appendString appends a string as JSON.
func appendString(b []byte, s string) []byte {
	begin := len(b)
	b = append(slices.Grow(b, len(s)+2), '"')
	from := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c < 0x7f && c != '"' && c != '\\' {
			continue
		}
		escape := bytes.IndexByte(escaped, c)
		if escape < 0 {
			b, _ = appendValue(b[:begin], s) // a string always encodes
			return b
		}
		b = append(append(b, s[from:i]...), '\\', escapes[escape])
		from = i + 1
	}
	return append(append(b, s[from:]...), '"')
}

// QuotedSize returns about how many bytes a text takes as JSON, without its quotation marks: a control character takes
// up to six, and so do <, > and & where an encoder writes for browsers, as those of some vendors do.
func QuotedSize(text string) int {
	n := len(text)
	for i := range len(text) {
		n += int(escapeSize[text[i]])
	}
	return n
}

// escapeSize is how many bytes the escape of a byte has more than the byte.
var escapeSize = func() (more [256]uint8) {
	for c := range ' ' {
		more[c] = 5
	}
	for _, c := range `"\` + "\n\r\t" {
		more[c] = 1
	}
	more['<'], more['>'], more['&'] = 5, 5, 5
	return more
}()
