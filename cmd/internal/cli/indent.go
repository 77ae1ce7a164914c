package cli

import (
	"bytes"
	"encoding/json"
)

// Indented returns a JSON text with line breaks and spaces, for a person. It is unchanged if it is no JSON, or if it
// would be longer than four times its compact form and 4 KiB: a hostile model can say values that are nested such that
// most of the text would be spaces.
func Indented(text []byte) []byte {
	var compact, b bytes.Buffer
	if json.Compact(&compact, text) != nil || spaces(compact.Bytes()) > 3*compact.Len()+4<<10 ||
		json.Indent(&b, compact.Bytes(), "", "  ") != nil {
		return text
	}
	return b.Bytes()
}

// spaces returns how many characters indentation adds to compact JSON.
func spaces(text []byte) (n int) {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case quoted:
		case c == ':':
			n++
		case c == ',':
			n += 1 + 2*depth
		case (c == '[' || c == '{') && text[i+1] == c+2: // an empty one has no line of its own
			i++
		case c == '[' || c == '{':
			depth++
			n += 1 + 2*depth
		case c == ']' || c == '}':
			depth--
			n += 1 + 2*depth
		}
	}
	return n
}
