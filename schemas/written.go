package schemas

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// writtenObject parses JSON in the exact form that this package writes: members in our order, each once, no unknown
// ones, no white space between them, and no optional member with its zero value. At the first difference ok becomes
// false, and the values parsed so far must not be used.
type writtenObject struct {
	jsonScanner
	ok    bool
	begun bool // the object under way has had a member
}

func newWrittenObject(payload []byte) *writtenObject {
	return &writtenObject{jsonScanner: jsonScanner{text: payload}, ok: utf8.Valid(payload)}
}

// want moves past the text, which has to be next.
func (w *writtenObject) want(text string) {
	if !w.ok || !bytes.HasPrefix(w.text[w.pos:], []byte(text)) {
		w.ok = false
		return
	}
	w.pos += len(text)
}

func (w *writtenObject) open()  { w.want("{"); w.begun = false }
func (w *writtenObject) close() { w.want("}"); w.begun = true }

// has moves past the name of a member, if it is next.
func (w *writtenObject) has(name string) bool {
	if !w.ok { // the place may be beyond the end
		return false
	}
	rest := w.text[w.pos:]
	if w.begun {
		rest = bytes.TrimPrefix(rest, []byte(","))
		if len(rest) == len(w.text)-w.pos {
			return false
		}
	}
	n := len(name)
	if len(rest) < n+3 || rest[0] != '"' || string(rest[1:n+1]) != name || rest[n+1] != '"' || rest[n+2] != ':' {
		return false
	}
	w.pos, w.begun = len(w.text)-len(rest)+n+3, true
	return true
}

// need moves past the name of a member, which has to be next.
func (w *writtenObject) need(name string) {
	if !w.has(name) {
		w.ok = false
	}
}

// raw returns the text of a value, which is only known to be JSON once it is decoded.
func (w *writtenObject) raw() []byte {
	if !w.ok || w.pos < len(w.text) && w.text[w.pos] <= ' ' {
		w.ok = false
		return nil
	}
	v, err := w.value()
	w.ok = err == nil
	return v
}

// stringBytes returns a string, which may be part of the text.
func (w *writtenObject) stringBytes() []byte {
	if !w.ok || w.pos < len(w.text) && w.text[w.pos] <= ' ' {
		w.ok = false
		return nil
	}
	v, err := w.str()
	w.ok = err == nil
	return v
}

func (w *writtenObject) stringValue() string { return string(w.stringBytes()) }

// neededText returns the value of a member that is always written.
func (w *writtenObject) neededText(name string) string {
	w.need(name)
	return w.stringValue()
}

// neededWord is like neededText, for a value that is only compared.
func (w *writtenObject) neededWord(name string) []byte {
	w.need(name)
	return w.stringBytes()
}

// optionalText returns the value of a member that is left out if it is empty.
func (w *writtenObject) optionalText(name string) string {
	if !w.has(name) {
		return ""
	}
	v := w.stringValue()
	w.ok = w.ok && v != ""
	return v
}

// optionalCount returns the value of a member that is left out if it is 0.
func (w *writtenObject) optionalCount(name string) int64 {
	if !w.has(name) {
		return 0
	}
	n := w.count()
	w.ok = w.ok && n > 0
	return n
}

// count returns a whole number that is not negative.
func (w *writtenObject) count() int64 {
	digits := string(w.raw())
	n, err := strconv.ParseUint(digits, 10, 64)
	w.ok = w.ok && err == nil && n <= MaxInteger && (digits[0] != '0' || len(digits) == 1)
	return int64(n)
}

// money returns a number that is mostly 0.
func (w *writtenObject) money() float64 {
	digits := w.raw()
	if string(digits) == "0" {
		return 0
	}
	var v float64
	w.ok = json.Unmarshal(digits, &v) == nil && w.ok
	return v
}

// flag returns a boolean.
func (w *writtenObject) flag() bool {
	v := string(w.raw())
	w.ok = w.ok && (v == "true" || v == "false")
	return v == "true"
}

// json returns a copy of a value that is kept byte for byte.
func (w *writtenObject) json() json.RawMessage {
	v := w.raw()
	w.ok = w.ok && strict(v)
	return bytes.Clone(v)
}

// complete reports whether the object had the expected form and nothing follows it.
func (w *writtenObject) complete() bool { return w.ok && w.pos == len(w.text) }
