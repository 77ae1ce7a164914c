package partialjson

import (
	"encoding/json"
	"strings"
)

// maxNesting bounds the recursion. Nothing a model writes comes close.
const maxNesting = 1000

// complete returns a truncated or wrong JSON text up to its end or its first mistake, as valid JSON. It returns false
// if the text has no value.
func complete(text string) (json.RawMessage, bool) {
	c := completer{in: text, out: make([]byte, 0, len(text)+16)}
	if !c.value(0) {
		return nil, false
	}
	return c.out, true
}

// A completer copies a JSON text, and closes open strings, lists and objects at its end or at a mistake. If a method
// returns false, the caller has to discard what the method appended.
type completer struct {
	in   string
	at   int // the next byte of in
	out  []byte
	stop bool // there was a mistake: read no further, and close every list and object
}

// peek skips white space and returns the next byte, 0 at the end.
func (c *completer) peek() byte {
	for ; c.at < len(c.in); c.at++ {
		switch c.in[c.at] {
		case ' ', '\t', '\n', '\r':
		default:
			return c.in[c.at]
		}
	}
	return 0
}

func (c *completer) value(depth int) bool {
	if depth > maxNesting {
		return false
	}
	switch c.peek() {
	case 0:
		return false
	case '"':
		return c.str()
	case '{':
		c.collection('}', depth, c.member)
		return true
	case '[':
		c.collection(']', depth, c.value)
		return true
	}
	return c.word() || c.number()
}

// collection copies a list or an object element by element, and always closes it. Commas between elements may be
// missing.
func (c *completer) collection(closing byte, depth int, element func(depth int) bool) {
	c.out = append(c.out, c.in[c.at])
	c.at++
	for first := true; !c.stop; first = false {
		if c.peek() == closing {
			c.at++
			break
		}
		mark := len(c.out)
		if !first {
			c.out = append(c.out, ',')
		}
		if !element(depth + 1) {
			c.out, c.stop = c.out[:mark], true
			break
		}
		if !c.stop && c.peek() == ',' {
			c.at++
		}
	}
	c.out = append(c.out, closing)
}

// member copies a name and its value.
func (c *completer) member(depth int) bool {
	if c.peek() != '"' || !c.str() || c.peek() != ':' {
		return false
	}
	c.at++
	c.out = append(c.out, ':')
	return c.value(depth)
}

// str copies a string. If the text ends within it, str closes it.
func (c *completer) str() bool {
	rest := c.in[c.at:]
	for i := 1; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case '"':
			return c.take(i+1, rest[:i+1])
		}
	}
	open := rest + `"`
	if strings.HasSuffix(rest, `\`) && (len(rest)-len(strings.TrimRight(rest, `\`)))%2 == 1 {
		open = rest[:len(rest)-1] + `"`
	}
	if c.take(len(rest), open) {
		return true
	}
	cut := strings.LastIndexByte(rest, '\\') // the text ends within an escape
	return cut > 0 && c.take(len(rest), rest[:cut]+`"`)
}

// take appends a quoted string and skips n bytes of the input, if the string is valid.
func (c *completer) take(n int, quoted string) bool {
	if !json.Valid([]byte(quoted)) {
		return false
	}
	c.at += n
	c.out = append(c.out, quoted...)
	return true
}

// words maps the literals to JSON. JSON has no numbers that are not finite, so they become null.
var words = []struct{ text, json string }{
	{"true", "true"}, {"false", "false"}, {"null", "null"}, {"NaN", "null"}, {"Infinity", "null"}, {"-Infinity", "null"},
}

// word copies a literal, also a truncated one. A lone minus does not count as the start of -Infinity.
func (c *completer) word() bool {
	rest := c.in[c.at:]
	for _, w := range words {
		if strings.HasPrefix(rest, w.text) || (rest != "-" && strings.HasPrefix(w.text, rest)) {
			c.at += min(len(rest), len(w.text))
			c.out = append(c.out, w.json...)
			return true
		}
	}
	return false
}

// number copies a number. If the text ends within its exponent, the exponent is dropped.
func (c *completer) number() bool {
	end := c.at
	for end < len(c.in) && strings.IndexByte("+-0123456789.eE", c.in[end]) >= 0 {
		end++
	}
	number := c.in[c.at:end]
	if exponent := strings.IndexAny(number, "eE"); end == len(c.in) && exponent > 0 && !json.Valid([]byte(number)) {
		number = number[:exponent]
	}
	if !json.Valid([]byte(number)) {
		return false
	}
	c.at = end
	c.out = append(c.out, number...)
	return true
}
