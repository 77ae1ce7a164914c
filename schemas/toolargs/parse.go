package toolargs

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// maxNesting bounds how deep arguments and schemas may be nested. Nothing a model or a person writes comes close.
const maxNesting = 1000

var (
	errNesting  = fmt.Errorf("nested deeper than %d", maxNesting)
	errTrailing = errors.New("more than one JSON value")
	errEnd      = errors.New("unexpected end of JSON")
)

// parseJSON reads one JSON value. Strings without escapes share the memory of the one copy made of data.
func parseJSON(data []byte) (value, error) {
	p := parser{in: string(data)}
	var v value
	err := p.value(&v, 0)
	if err == nil {
		if p.space(); p.at < len(p.in) {
			err = errTrailing
		}
	}
	if err != nil {
		return value{}, fmt.Errorf("offset %d: %w", p.at, err)
	}
	return v, nil
}

type parser struct {
	in string
	at int
}

func (p *parser) space() {
	for p.at < len(p.in) {
		switch p.in[p.at] {
		case ' ', '\t', '\n', '\r':
			p.at++
		default:
			return
		}
	}
}

// peek skips white space and returns the next byte, 0 at the end.
func (p *parser) peek() byte {
	p.space()
	if p.at == len(p.in) {
		return 0
	}
	return p.in[p.at]
}

func (p *parser) unexpected() error {
	if p.at >= len(p.in) {
		return errEnd
	}
	r, _ := utf8.DecodeRuneInString(p.in[p.at:])
	return fmt.Errorf("unexpected %q", r)
}

func (p *parser) value(v *value, depth int) error {
	if depth > maxNesting {
		return errNesting
	}
	switch c := p.peek(); c {
	case '{':
		return p.object(v, depth)
	case '[':
		return p.array(v, depth)
	case '"':
		s, err := p.str()
		*v = value{kind: kindString, str: s}
		return err
	case 't':
		return p.word(v, "true", kindTrue)
	case 'f':
		return p.word(v, "false", kindFalse)
	case 'n':
		return p.word(v, "null", kindNull)
	default:
		return p.number(v)
	}
}

func (p *parser) word(v *value, word string, k kind) error {
	if !strings.HasPrefix(p.in[p.at:], word) {
		return p.unexpected()
	}
	p.at += len(word)
	v.kind = k
	return nil
}

func (p *parser) object(v *value, depth int) error {
	v.kind = kindObject
	p.at++
	if p.peek() == '}' {
		p.at++
		return nil
	}
	for {
		if p.peek() != '"' {
			return p.unexpected()
		}
		key, err := p.str()
		if err != nil {
			return err
		}
		if p.peek() != ':' {
			return p.unexpected()
		}
		p.at++
		v.elems = append(v.elems, elem{key: key})
		if err := p.value(&v.elems[len(v.elems)-1].val, depth+1); err != nil {
			return err
		}
		more, err := p.more('}')
		if err != nil {
			return err
		}
		if !more {
			v.elems = settleMembers(v.elems)
			return nil
		}
	}
}

func (p *parser) array(v *value, depth int) error {
	v.kind = kindArray
	p.at++
	if p.peek() == ']' {
		p.at++
		return nil
	}
	for {
		v.elems = append(v.elems, elem{})
		if err := p.value(&v.elems[len(v.elems)-1].val, depth+1); err != nil {
			return err
		}
		if more, err := p.more(']'); err != nil || !more {
			return err
		}
	}
}

// more reads the comma before another element, or the closing bracket.
func (p *parser) more(closing byte) (bool, error) {
	switch p.peek() {
	case ',':
		p.at++
		return true, nil
	case closing:
		p.at++
		return false, nil
	}
	return false, p.unexpected()
}

func (p *parser) number(v *value) error {
	start := p.at
	if p.at < len(p.in) && p.in[p.at] == '-' {
		p.at++
	}
	switch {
	case p.at < len(p.in) && p.in[p.at] == '0':
		p.at++
	case p.digits() == 0:
		return p.unexpected()
	}
	if p.at < len(p.in) && p.in[p.at] == '.' {
		p.at++
		if p.digits() == 0 {
			return p.unexpected()
		}
	}
	if p.at < len(p.in) && (p.in[p.at] == 'e' || p.in[p.at] == 'E') {
		p.at++
		if p.at < len(p.in) && (p.in[p.at] == '+' || p.in[p.at] == '-') {
			p.at++
		}
		if p.digits() == 0 {
			return p.unexpected()
		}
	}
	literal := p.in[start:p.at]
	num, _ := strconv.ParseFloat(literal, 64) // the syntax is right; out of range is infinite, as in JavaScript
	*v = value{kind: kindNumber, num: num, str: literal}
	return nil
}

func (p *parser) digits() (n int) {
	for p.at < len(p.in) && p.in[p.at] >= '0' && p.in[p.at] <= '9' {
		p.at++
		n++
	}
	return n
}

// str reads a string from its opening to its closing quote.
func (p *parser) str() (string, error) {
	p.at++
	start := p.at
	ascii := true
	for ; p.at < len(p.in); p.at++ {
		switch c := p.in[p.at]; {
		case c == '"':
			s := p.in[start:p.at]
			p.at++
			if !ascii {
				s = strings.ToValidUTF8(s, "\uFFFD")
			}
			return s, nil
		case c == '\\':
			return p.escaped(start)
		case c < ' ':
			return "", p.unexpected()
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return "", errEnd
}

// escaped goes on with a string, that began at start, from its first escape.
func (p *parser) escaped(start int) (string, error) {
	out := []byte(p.in[start:p.at])
	for p.at < len(p.in) {
		c := p.in[p.at]
		switch {
		case c == '"':
			p.at++
			return strings.ToValidUTF8(string(out), "\uFFFD"), nil
		case c < ' ':
			return "", p.unexpected()
		case c != '\\':
			out = append(out, c)
			p.at++
		default:
			var err error
			if out, err = p.escape(out); err != nil {
				return "", err
			}
		}
	}
	return "", errEnd
}

var shortEscapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

func (p *parser) escape(out []byte) ([]byte, error) {
	p.at++
	if p.at >= len(p.in) {
		return nil, errEnd
	}
	c := p.in[p.at]
	if short := shortEscapes[c]; short != 0 {
		p.at++
		return append(out, short), nil
	}
	if c != 'u' {
		return nil, p.unexpected()
	}
	r, ok := p.unit(p.at + 1)
	if !ok {
		return nil, p.unexpected()
	}
	p.at += 5
	if utf16.IsSurrogate(r) && strings.HasPrefix(p.in[p.at:], `\u`) {
		if low, ok := p.unit(p.at + 2); ok && utf16.DecodeRune(r, low) != utf8.RuneError {
			r = utf16.DecodeRune(r, low)
			p.at += 6
		}
	}
	return utf8.AppendRune(out, r), nil // a lone surrogate becomes U+FFFD
}

// unit reads the four hexadecimal digits of a UTF-16 code unit.
func (p *parser) unit(at int) (rune, bool) {
	if at+4 > len(p.in) {
		return 0, false
	}
	for _, c := range []byte(p.in[at : at+4]) {
		if !isHex(c) {
			return 0, false
		}
	}
	n, err := strconv.ParseUint(p.in[at:at+4], 16, 32)
	return rune(n), err == nil
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}
