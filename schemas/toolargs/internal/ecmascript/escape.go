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

// ErrBeyond is wrapped by the error of a pattern with a feature that Go's engine lacks: lookaround or a backreference.
var ErrBeyond = errors.New("lookaround or a backreference")

var errPatternEnd = errors.New("ends in the middle of an escape")

// MaxSize is the largest size of a translation in bytes. It limits the expansion of repeated groups.
const MaxSize = 1 << 16

// ForGo translates a pattern for package regexp. The error wraps [ErrBeyond] if only [ForRegexp2] can.
func ForGo(pattern string) (string, error) {
	t := translator{in: pattern, code: `\x{%x}`}
	err := t.translate()
	return string(t.out), err
}

// ForRegexp2 translates a pattern for regexp2 in its mode ECMAScript with Unicode.
func ForRegexp2(pattern string) (string, error) {
	t := translator{in: pattern, code: `\u{%x}`, beyond: true}
	err := t.translate()
	if err == nil && t.highest > 0 {
		t = translator{in: pattern, code: t.code, beyond: true, forget: true}
		err = t.translate()
	}
	return string(t.out), err
}

// translator translates a pattern of JavaScript, with its flag u, into the syntax of another engine: the dot, white
// space, \uXXXX, empty classes, names of groups.
type translator struct {
	in     string
	out    []byte
	code   string // the engine's syntax of a code point, for fmt
	beyond bool   // the engine has lookaround and backreferences
	forget bool   // groups have to drop what they captured in the repetition before

	names   map[string]int // numbers of named groups; known in advance, because a reference may come first
	groups  int            // that capture, so far
	highest int            // group referred to
	open    []opening
}

func (t *translator) translate() (err error) {
	if t.beyond {
		if t.names, err = groupNames(t.in); err != nil {
			return err
		}
	}
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
		case t.in[0] == ')':
			err = t.close()
		default:
			t.write(1, t.in[:1])
		}
		if err != nil {
			return err
		}
	}
	if t.highest > t.groups {
		return fmt.Errorf("there is no group %d", t.highest)
	}
	return nil
}

func (t *translator) dot() { t.write(1, `[^\n\r`+t.point(0x2028)+t.point(0x2029)+`]`) }

// point writes a code point.
func (t *translator) point(r rune) string { return fmt.Sprintf(t.code, r) }

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
		ranges := spaceRanges
		if c == 'S' {
			ranges = nonSpaceRanges
		}
		switch {
		case t.beyond:
			ranges = t.in[:2]
		case !inClass:
			ranges = "[" + ranges + "]"
		}
		t.write(2, ranges)
	case 'd', 'D', 'w', 'W', 't', 'n', 'v', 'f', 'r':
		t.write(2, t.in[:2])
	case 'b', 'B':
		switch {
		case inClass:
			t.write(2, `\x08`)
		case !t.beyond:
			t.write(2, t.in[:2])
		case c == 'b': // regexp2's own \b knows words of all scripts
			t.write(2, `(?:(?<=\w)(?!\w)|(?<!\w)(?=\w))`)
		default:
			t.write(2, `(?:(?<=\w)(?=\w)|(?<!\w)(?!\w))`)
		}
	case 'u', 'x', 'c':
		return t.codeEscape()
	case 'p', 'P':
		return t.property()
	case '1', '2', '3', '4', '5', '6', '7', '8', '9', 'k':
		if inClass {
			return fmt.Errorf("invalid escape %q", t.in[:2])
		}
		return t.reference()
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
		t.write(3, t.point(rune(t.in[2]%32)))
		return nil
	}
	r, n, ok := codePoint(t.in)
	if !ok {
		return fmt.Errorf("invalid escape %q", t.in[:2])
	}
	if low, m, ok := codePoint(t.in[n:]); ok && utf16.DecodeRune(r, low) != utf8.RuneError {
		r, n = utf16.DecodeRune(r, low), n+m
	}
	t.write(n, t.point(r))
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
		t.write(2, `[^`+t.point(0)+`-`+t.point(utf8.MaxRune)+`]`)
		return nil
	case strings.HasPrefix(t.in, "[^]"):
		t.write(3, `[`+t.point(0)+`-`+t.point(utf8.MaxRune)+`]`)
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
