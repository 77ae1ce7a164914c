package toolargs

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxNesting bounds how deep arguments may be nested, far beyond what models write.
const maxNesting = 1000

var (
	errTrailing = errors.New("more than one JSON value")
	errEnd      = errors.New("unexpected end of JSON")

	errManyValues = fmt.Errorf("more than %d values", maxValues)
)

// parseJSON parses one JSON value. Strings without escapes share the memory of the only copy that is made of data.
func parseJSON(data []byte) (value, error) {
	v, _, err := parseArguments(data)
	return v, err
}

// parseArguments also reports whether an object has a repeated name, of which the last value is kept.
func parseArguments(data []byte) (v value, repeated bool, err error) {
	p := parser{in: string(data), nesting: maxNesting, left: maxValues}
	v, err = p.whole()
	return v, p.repeated, err
}

// parseNested is parseJSON with another limit of nesting.
func parseNested(data []byte, nesting int) (value, error) {
	p := parser{in: string(data), nesting: nesting, left: len(data)}
	return p.whole()
}

func (p *parser) whole() (v value, err error) {
	err = p.value(&v, 0)
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
	in      string
	at      int
	nesting int // how deep it may be
	left    int // values that it may still have

	repeated bool // some object has a name twice
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
	if depth > p.nesting {
		return fmt.Errorf("nested deeper than %d", p.nesting)
	}
	if p.left--; p.left < 0 {
		return errManyValues
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
			n := len(v.elems)
			v.elems = settleMembers(v.elems)
			p.repeated = p.repeated || len(v.elems) < n
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
