package schemas

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"sync"
	"time"
)

// UnknownTypeError is the error of a reader that found a type it does not know. The data is not damaged: a newer writer
// may have written it.
type UnknownTypeError struct {
	What string // what was read: "content", "event", "command", ...
	Type string // the type found
}

// Error names what was read and the type found.
func (e *UnknownTypeError) Error() string {
	return fmt.Sprintf("schemas: unknown %s type %q", e.What, e.Type)
}

func decodeAs[T any](raw []byte) (T, error) {
	var v T
	err := json.Unmarshal(raw, &v)
	return v, err
}

// marshalPlain is json.Marshal without the escaping of <, > and &: people and models read content, not browsers.
func marshalPlain(v any) ([]byte, error) {
	e := encoders.Get().(*encoder)
	defer e.release()
	if err := e.json.Encode(v); err != nil {
		return nil, err
	}
	return bytes.Clone(bytes.TrimSuffix(e.buf.Bytes(), []byte("\n"))), nil
}

// encoder is a JSON encoder with its buffer. Messages nest values that encode themselves, each with an encoder of its
// own.
type encoder struct {
	buf  bytes.Buffer
	json *json.Encoder
}

var encoders = sync.Pool{New: func() any {
	e := new(encoder)
	e.json = json.NewEncoder(&e.buf)
	e.json.SetEscapeHTML(false)
	return e
}}

func (e *encoder) release() {
	if e.buf.Cap() <= maxPooled {
		e.buf.Reset()
		encoders.Put(e)
	}
}

// marshalTyped writes v, which must encode as an object, with one more string member in front.
func marshalTyped(key, value string, v any) ([]byte, error) {
	body, err := marshalPlain(v)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, len(body)+len(key)+len(value)+8)
	out = append(out, '{', '"')
	out = append(out, key...)
	out = append(out, '"', ':', '"')
	out = append(out, value...) // our own constants: nothing to escape
	out = append(out, '"')
	if len(body) > 2 {
		out = append(out, ',')
	}
	return append(out, body[1:]...), nil
}

// notNil returns an empty list for nil: readers iterate over lists without a check.
func notNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// Marshal encodes a value of this package as it goes over the wire: without HTML escaping.
func Marshal(v any) ([]byte, error) {
	pooled := buffers.Get().(*[]byte)
	defer buffers.Put(pooled)
	b, err := appendValue((*pooled)[:0], v)
	if err != nil {
		return nil, err
	}
	if cap(b) <= maxPooled {
		*pooled = b
	}
	return bytes.Clone(b), nil
}

// maxNested is how deep the JSON of others may be nested in an event. Package encoding/json, and many a reader in
// another language, reads 10,000 levels, and a log has some around it: an event that is written and cannot be read
// damages its log for ever.
const (
	maxNested     = 9000
	maxNestedData = maxNested + 100 // of the whole data of an event
)

// nestedDeeper reports whether a JSON text is nested deeper than most levels; it need not look at a text of at most
// 2*most bytes. For a text that is not JSON the result means nothing.
func nestedDeeper(text []byte, most int) bool {
	if len(text) <= 2*most {
		return false
	}
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case quoted:
		case c == '[' || c == '{':
			if depth++; depth > most {
				return true
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return false
}

// Milliseconds returns n milliseconds as a duration. Members such as timeoutMs may have any 64 bit integer: a value
// that a duration cannot hold, beyond 292 years, becomes the longest or shortest duration instead of wrapping around.
func Milliseconds(n int64) time.Duration {
	const most = math.MaxInt64 / int64(time.Millisecond)
	switch {
	case n > most:
		return math.MaxInt64
	case n < -most:
		return math.MinInt64
	}
	return time.Duration(n) * time.Millisecond
}

// After returns the time n milliseconds after t. JSON has no times beyond the year 9999: a later time becomes its end.
func After(t time.Time, n int64) time.Time {
	latest := time.Date(9999, time.December, 31, 23, 59, 59, int(time.Second-time.Millisecond), time.UTC)
	if at := t.Add(Milliseconds(n)); at.Before(latest) {
		return at
	}
	return latest
}
