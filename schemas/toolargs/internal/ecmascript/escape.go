package ecmascript

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// ErrBeyond is the error of a pattern with a feature that Go's engine lacks, and with nothing else that is wrong before
// or after it but what only an engine with that feature can tell: to which groups the backreferences refer.
var ErrBeyond = errors.New("lookaround or a backreference")

var errPatternEnd = errors.New("ends in the middle of an escape")

// ForGo translates a pattern for package regexp. The error is [ErrBeyond] if only another engine can match it. classes
// is about how many ranges of characters the classes have that the pattern names, which an engine sorts when it
// compiles the pattern.
func ForGo(pattern string) (translated string, classes int, err error) {
	t := translator{in: pattern}
	err = t.translate()
	return string(t.out), t.classes, err
}

// The ranges of a class in most patterns are few; those of a property of Unicode up to some seven hundred.
const namedRanges, propertyRanges = 16, 1024

// translator translates a pattern of JavaScript, with its flag u, into the syntax of Go: the dot, white space, \uXXXX,
// empty classes, names of properties.
type translator struct {
	in      string
	out     []byte
	beyond  bool // Go's engine lacks something that was in it
	classes int  // ranges, see ForGo
}

func (t *translator) translate() (err error) {
	for t.in != "" {
		switch {
		case t.in[0] == '\\':
			err = t.escape(false)
		case t.in[0] == '[':
			err = t.class()
		case t.in[0] == '.':
			t.dot()
		case t.in[0] == '(':
			err = t.group()
		default:
			t.write(1, t.in[:1])
		}
		if err != nil {
			return err
		}
	}
	if t.beyond {
		return ErrBeyond
	}
	return nil
}

func (t *translator) dot() { t.write(1, `[^\n\r\x{2028}\x{2029}]`) }

// point writes a code point.
func point(r rune) string { return fmt.Sprintf(`\x{%x}`, r) }

// write skips n bytes of the input and writes the text for them.
func (t *translator) write(n int, text string) {
	t.in = t.in[n:]
	t.out = append(t.out, text...)
}

const (
	spaceRanges    = `\t-\r \x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}`
	nonSpaceRanges = `\x{0}-\x{8}\x{e}-\x{1f}!-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}` +
		`\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{fefe}\x{ff00}-\x{10ffff}`
)

// escape translates one escape sequence, inside or outside a class.
func (t *translator) escape(inClass bool) error {
	if len(t.in) < 2 {
		return errPatternEnd
	}
	switch c := t.in[1]; c {
	case 's', 'S':
		t.classes += namedRanges
		ranges := spaceRanges
		if c == 'S' {
			ranges = nonSpaceRanges
		}
		if !inClass {
			ranges = "[" + ranges + "]"
		}
		t.write(2, ranges)
	case 'd', 'D', 'w', 'W':
		t.classes += namedRanges
		t.write(2, t.in[:2])
	case 't', 'n', 'v', 'f', 'r':
		t.write(2, t.in[:2])
	case 'b', 'B':
		if inClass {
			t.write(2, `\x08`)
		} else {
			t.write(2, t.in[:2])
		}
	case 'u', 'x', 'c':
		return t.codeEscape()
	case 'p', 'P':
		return t.property()
	case '1', '2', '3', '4', '5', '6', '7', '8', '9', 'k':
		if inClass {
			return fmt.Errorf("invalid escape %q", t.in[:2])
		}
		t.beyond = true
		t.write(2, "")
	case '0':
		t.write(2, `\x00`)
	default:
		if !strings.ContainsRune(`^$\.*+?()[]{}|/-`, rune(c)) {
			return fmt.Errorf("invalid escape %q", t.in[:2])
		}
		t.write(2, regexp.QuoteMeta(t.in[1:2]))
		if c == '-' && inClass {
			return t.rewriteDash()
		}
	}
	return nil
}

// rewriteDash escapes the dash just written, which would make a range in a class.
func (t *translator) rewriteDash() error {
	t.out = append(t.out[:len(t.out)-1], `\-`...)
	return nil
}

// codeEscape translates \xHH, \uHHHH, \u{H...} and \cX.
func (t *translator) codeEscape() error {
	if t.in[1] == 'c' {
		if len(t.in) < 3 || !isLetter(t.in[2]) {
			return errPatternEnd
		}
		t.write(3, point(rune(t.in[2]%32)))
		return nil
	}
	r, n, ok := codePoint(t.in)
	if !ok {
		return fmt.Errorf("invalid escape %q", t.in[:2])
	}
	if low, m, ok := codePoint(t.in[n:]); ok && utf16.DecodeRune(r, low) != utf8.RuneError {
		r, n = utf16.DecodeRune(r, low), n+m
	}
	t.write(n, point(r))
	return nil
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// codePoint parses \xHH, \uHHHH or \u{H...} at the start of s. n is its length.
func codePoint(s string) (r rune, n int, ok bool) {
	var digits string
	switch {
	case strings.HasPrefix(s, `\u{`):
		end := strings.IndexByte(s, '}')
		if end < 0 {
			return 0, 0, false
		}
		digits, n = s[3:end], end+1
	case strings.HasPrefix(s, `\u`) && len(s) >= 6:
		digits, n = s[2:6], 6
	case strings.HasPrefix(s, `\x`) && len(s) >= 4:
		digits, n = s[2:4], 4
	default:
		return 0, 0, false
	}
	code, err := strconv.ParseUint(digits, 16, 32)
	if err != nil || code > utf8.MaxRune {
		return 0, 0, false
	}
	return rune(code), n, true
}

// property translates \p{...}. In JavaScript the names of scripts have a prefix, and those of categories may be long.
func (t *translator) property() error {
	end := strings.IndexByte(t.in, '}')
	if len(t.in) < 3 || t.in[2] != '{' || end < 0 {
		return fmt.Errorf("invalid escape %q", t.in[:2])
	}
	t.classes += propertyRanges
	name := t.in[3:end]
	if i := strings.IndexByte(name, '='); i >= 0 {
		name = name[i+1:]
	}
	if short := unicode.CategoryAliases[name]; short != "" {
		name = short
	}
	t.write(end+1, t.in[:2]+"{"+name+"}")
	return nil
}

// class translates a character class. In JavaScript an empty one matches nothing, and everything if negated.
func (t *translator) class() error {
	switch {
	case strings.HasPrefix(t.in, "[]"):
		t.write(2, `[^\x{0}-\x{10ffff}]`)
		return nil
	case strings.HasPrefix(t.in, "[^]"):
		t.write(3, `[\x{0}-\x{10ffff}]`)
		return nil
	case strings.HasPrefix(t.in, "[^"):
		t.write(2, "[^")
	default:
		t.write(1, "[")
	}
	for t.in != "" {
		switch t.in[0] {
		case ']':
			t.write(1, "]")
			return nil
		case '\\':
			if err := t.escape(true); err != nil {
				return err
			}
		case '[':
			t.write(1, `\[`)
		default:
			t.write(1, t.in[:1])
		}
	}
	return errors.New("unterminated character class")
}
