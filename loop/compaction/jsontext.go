package compaction

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A member is one member of a JSON object.
type member struct {
	key   string
	value json.RawMessage
}

// members returns an object's members in the order in which JavaScript lists them: first indexes, in ascending order,
// then the others in their order; a name that occurs twice has its first place and its last value.
func members(object json.RawMessage) (list []member, ok bool) {
	object = bytes.TrimSpace(object)
	if !bytes.HasPrefix(object, []byte("{")) || !json.Valid(object) {
		return nil, false
	}
	return membersOf(object), true
}

// membersOf is members of an object that is known to be one.
func membersOf(object json.RawMessage) (list []member) {
	at := map[string]int{}
	elements(object, func(key, value json.RawMessage) {
		var name string
		_ = json.Unmarshal(key, &name) // it is a string
		if i, twice := at[name]; twice {
			list[i].value = value
			return
		}
		at[name] = len(list)
		list = append(list, member{name, value})
	})
	slices.SortStableFunc(list, func(a, b member) int {
		x, xIs := arrayIndex(a.key)
		y, yIs := arrayIndex(b.key)
		switch {
		case xIs && yIs:
			return int(int64(x) - int64(y))
		case xIs:
			return -1
		case yIs:
			return 1
		}
		return 0
	})
	return list
}

// elements calls f for each member of an object, or for each item of a list, without a key. The text is valid. Keys and
// values are parts of it: a copy at each level of nested values would take many times their size.
func elements(text json.RawMessage, f func(key, value json.RawMessage)) {
	var key json.RawMessage
	for i := 1; i < len(text); {
		switch text[i] {
		case ' ', '\t', '\r', '\n', ',', ':', ']', '}':
			i++
		default:
			end := endOf(text, i)
			value := text[i:end]
			i = end
			if text[0] == '{' && key == nil {
				key = value
				continue
			}
			f(key, value)
			key = nil
		}
	}
}

// endOf returns where the value ends that begins at i.
func endOf(text []byte, i int) int {
	for depth := 0; i < len(text); {
		c := text[i]
		i++
		switch c {
		case '"':
			i = endOfString(text, i)
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		case ',', ':', ' ', '\t', '\r', '\n':
			continue
		default:
			for i < len(text) && bytes.IndexByte([]byte(",:]} \t\r\n"), text[i]) < 0 {
				i++
			}
		}
		if depth == 0 {
			return i
		}
	}
	return i
}

// endOfString returns where the string ends whose opening quote is before i. It is fast, because each level of nested
// values looks at the strings in them again.
func endOfString(text []byte, i int) int {
	quote := i + bytes.IndexByte(text[i:], '"')
	for {
		escape := bytes.IndexByte(text[i:quote], '\\')
		if escape < 0 {
			return quote + 1
		}
		if i += escape + 2; i > quote { // it is escaped
			quote = i + bytes.IndexByte(text[i:], '"')
		}
	}
}

func arrayIndex(key string) (uint32, bool) {
	n, err := strconv.ParseUint(key, 10, 32)
	return uint32(n), err == nil && n < math.MaxUint32 && strconv.FormatUint(n, 10) == key
}

// compactJSON returns a value as JSON.stringify writes it. A text that is not JSON stays as it is.
func compactJSON(raw json.RawMessage) string {
	if !json.Valid(raw) {
		return string(raw)
	}
	return string(appendCompact(nil, bytes.TrimSpace(raw), 0))
}

// maxDepth bounds the work for nested values: deeper values only lose their blanks.
const maxDepth = 50

func appendCompact(b []byte, raw json.RawMessage, depth int) []byte {
	if depth > maxDepth {
		compact := bytes.NewBuffer(b)
		_ = json.Compact(compact, raw) // it is valid
		return compact.Bytes()
	}
	switch raw[0] {
	case '{':
		b = append(b, '{')
		for i, m := range membersOf(raw) {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendQuoted(b, m.key), ':')
			b = appendCompact(b, m.value, depth+1)
		}
		return append(b, '}')
	case '[':
		b = append(b, '[')
		first := true
		elements(raw, func(_, item json.RawMessage) {
			if !first {
				b = append(b, ',')
			}
			first = false
			b = appendCompact(b, item, depth+1)
		})
		return append(b, ']')
	case '"':
		var s string
		_ = json.Unmarshal(raw, &s)
		return appendQuoted(b, s)
	case 't', 'f', 'n':
		return append(b, raw...)
	}
	return appendNumber(b, string(raw))
}

func appendNumber(b []byte, text string) []byte {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return append(b, "null"...) // beyond the range of numbers
	}
	if f == 0 {
		return append(b, '0') // no sign
	}
	number, _ := json.Marshal(f) // ECMAScript's form
	return append(b, number...)
}

const hexDigits = "0123456789abcdef"

func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch i := strings.IndexRune("\"\\\b\f\n\r\t", r); {
		case i >= 0:
			b = append(b, '\\', `"\bfnrt`[i])
		case r < 0x20:
			b = append(b, '\\', 'u', '0', '0', hexDigits[r>>4], hexDigits[r&15])
		default:
			b = append(b, string(r)...)
		}
	}
	return append(b, '"')
}
