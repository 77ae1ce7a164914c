package toolargs

import (
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// str parses a string from its opening to its closing quote.
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

// escaped continues, at the first escape, with a string that began at start.
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

// unit parses the four hexadecimal digits of a UTF-16 code unit.
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
