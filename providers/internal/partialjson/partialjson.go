// Package partialjson reads the JSON of tool arguments while it is still coming in, or where a model got it slightly
// wrong. All it gives out is valid JSON with the members in the order in which they came.
package partialjson

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Parse makes the best of a text: as it is if it is JSON, else repaired (see [Repair]), else completed to what has come
// of it so far: open strings, lists and objects are closed; a member that has no value yet is left out; so are a number
// that cannot end where it does, a half escape, and everything behind a mistake. What makes no sense at all is {}.
//
// A call costs as much as the text is long: call it when somebody looks, not for each delta.
func Parse(text string) json.RawMessage {
	if strings.TrimSpace(text) == "" {
		return json.RawMessage("{}")
	}
	if v, ok := Repair(text); ok {
		return v
	}
	if v, ok := complete(text); ok {
		return v
	}
	if v, ok := complete(repaired(text)); ok {
		return v
	}
	return json.RawMessage("{}")
}

// Repair returns a complete text as compact JSON. Two mistakes of models are mended: raw control characters in strings
// are escaped, and a backslash before a character that needs none is doubled. ok is false if that is not enough.
func Repair(text string) (v json.RawMessage, ok bool) {
	if v, ok := compact(text); ok {
		return v, true
	}
	return compact(repaired(text))
}

func compact(text string) (json.RawMessage, bool) {
	var b bytes.Buffer
	b.Grow(len(text))
	if json.Compact(&b, []byte(text)) != nil {
		return nil, false
	}
	return b.Bytes(), true
}

const hexDigits = "0123456789abcdef"

// repaired mends the strings of a text, which need not be complete.
func repaired(text string) string {
	var b strings.Builder
	b.Grow(len(text) + 16)
	inString := false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '"':
			inString = !inString
			b.WriteByte(c)
		case !inString:
			b.WriteByte(c)
		case c == '\\' && i+1 < len(text) && strings.IndexByte(`"\/bfnrtu`, text[i+1]) >= 0:
			b.WriteByte(c)
			i++
			b.WriteByte(text[i])
		case c == '\\':
			b.WriteString(`\\`)
		case c < ' ':
			b.WriteString(escaped(c))
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

func escaped(c byte) string {
	switch c {
	case '\n':
		return `\n`
	case '\r':
		return `\r`
	case '\t':
		return `\t`
	}
	return `\u00` + string([]byte{hexDigits[c>>4], hexDigits[c&15]})
}
