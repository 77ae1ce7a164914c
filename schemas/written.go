package schemas

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// writtenObject reads JSON that is written as we write it: members in our order, each once, none too many, no white
// space between them, none that may be left out and says nothing. The first thing that is otherwise makes it not ok,
// and what was read is worth nothing.
type writtenObject struct {
	jsonScanner
	ok    bool
	begun bool // the object under way has had a member
}

func newWrittenObject(payload []byte) *writtenObject {
	return &writtenObject{jsonScanner: jsonScanner{text: payload}, ok: utf8.Valid(payload)}
}

// want goes past the text, which has to be next.
func (w *writtenObject) want(text string) {
	if !w.ok || !bytes.HasPrefix(w.text[w.pos:], []byte(text)) {
		w.ok = false
		return
	}
	w.pos += len(text)
}

func (w *writtenObject) open()  { w.want("{"); w.begun = false }
func (w *writtenObject) close() { w.want("}"); w.begun = true }

// has goes past the name of a member, if it is next.
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

// need goes past the name of a member, which has to be next.
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

// stringBytes is a string. It may be part of the text.
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

// neededText is the value of a member that is always written.
func (w *writtenObject) neededText(name string) string {
	w.need(name)
	return w.stringValue()
}

// neededWord is as neededText, of a member whose value is only looked at.
func (w *writtenObject) neededWord(name string) []byte {
	w.need(name)
	return w.stringBytes()
}

// optionalText is the value of a member that is not written when it is empty.
func (w *writtenObject) optionalText(name string) string {
	if !w.has(name) {
		return ""
	}
	v := w.stringValue()
	w.ok = w.ok && v != ""
	return v
}

// optionalCount is the value of a member that is not written when it is 0.
func (w *writtenObject) optionalCount(name string) int64 {
	if !w.has(name) {
		return 0
	}
	n := w.count()
	w.ok = w.ok && n > 0
	return n
}

// count is a whole number, not below 0.
func (w *writtenObject) count() int64 {
	digits := string(w.raw())
	n, err := strconv.ParseUint(digits, 10, 64)
	w.ok = w.ok && err == nil && n <= maxInteger && (digits[0] != '0' || len(digits) == 1)
	return int64(n)
}

// money is a number, mostly 0.
func (w *writtenObject) money() float64 {
	digits := w.raw()
	if string(digits) == "0" {
		return 0
	}
	var v float64
	w.ok = json.Unmarshal(digits, &v) == nil && w.ok
	return v
}

// flag is the value of a member.
func (w *writtenObject) flag() bool {
	v := string(w.raw())
	w.ok = w.ok && (v == "true" || v == "false")
	return v == "true"
}

// json is a value that is kept byte for byte. It is a copy.
func (w *writtenObject) json() json.RawMessage {
	v := w.raw()
	w.ok = w.ok && strict(v)
	return bytes.Clone(v)
}

// complete reports whether the object was as it has to be, and nothing follows it.
func (w *writtenObject) complete() bool { return w.ok && w.pos == len(w.text) }
