// Package partialjson reads the JSON of tool arguments that is incomplete or slightly wrong. It returns valid JSON,
// with the members in their original order.
package partialjson

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Parse returns a text as compact JSON. If the text is not valid, Parse repairs it as [Repair] does. If that is not
// enough, Parse completes it: it closes open strings, lists and objects, and drops a member without a value, a number
// or an escape that is truncated, and everything after a mistake. A text without any value becomes {}.
//
// whole is false if Parse had to complete the text: what it returns is then less than what was meant. No text at all is
// whole, because some vendors stream nothing for a call without arguments.
//
// The cost of a call is linear in the length of the text, so call it when the value is needed and not for each delta.
func Parse(text string) (v json.RawMessage, whole bool) {
	if strings.TrimSpace(text) == "" {
		return json.RawMessage("{}"), true
	}
	if v, ok := Repair(text); ok {
		return v, true
	}
	if v, ok := complete(text); ok {
		return v, false
	}
	if v, ok := complete(repairStrings(text)); ok {
		return v, false
	}
	return json.RawMessage("{}"), false
}

// Repair returns a complete text as compact JSON. It repairs two mistakes of models: it escapes raw control characters
// in strings, and doubles a backslash before a character that cannot be escaped. ok is false if that is not enough.
func Repair(text string) (v json.RawMessage, ok bool) {
	if v, ok := compact(text); ok {
		return v, true
	}
	return compact(repairStrings(text))
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

// repairStrings repairs the strings of a text, which may be incomplete.
func repairStrings(text string) string {
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
