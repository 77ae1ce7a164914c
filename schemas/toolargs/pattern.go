package toolargs

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

var (
	errBeyond     = errors.New("lookaround or a backreference") // never seen by callers
	errPatternEnd = errors.New("ends in the middle of an escape")
)

// matcher is a compiled pattern.
type matcher interface {
	MatchString(s string) bool
}

// compilePattern compiles a regular expression of JavaScript, as with its flag u. Go's engine runs it in linear time
// wherever it can; what the two write differently is translated: the dot, white space, \uXXXX, empty classes. What Go
// does not have is left to a [backtracker].
func compilePattern(pattern string) (matcher, error) {
	t := translator{in: pattern}
	err := t.translate()
	if err == nil {
		var re *regexp.Regexp
		if re, err = regexp.Compile(t.out.String()); err == nil {
			return re, nil
		}
	}
	var broken *syntax.Error
	if errors.Is(err, errBeyond) || errors.As(err, &broken) && broken.Code == syntax.ErrInvalidRepeatSize {
		return orNil(compileBacktracker(pattern))
	}
	return nil, errors.New(strings.TrimPrefix(err.Error(), "error parsing regexp: "))
}

func orNil(b *backtracker, err error) (matcher, error) {
	if err != nil {
		return nil, err
	}
	return b, nil
}

type translator struct {
	in  string
	out strings.Builder
}

func (t *translator) translate() error {
	for t.in != "" {
		var err error
		switch {
		case t.in[0] == '\\':
			err = t.escape(false)
		case t.in[0] == '[':
			err = t.class()
		case t.in[0] == '.':
			t.dot()
		case strings.HasPrefix(t.in, "(?"):
			err = t.group()
		default:
			t.write(1, t.in[:1])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *translator) dot() { t.write(1, `[^\n\r\x{2028}\x{2029}]`) }

// write takes n bytes of the input and writes the text for them.
func (t *translator) write(n int, text string) {
	t.in = t.in[n:]
	t.out.WriteString(text)
}

// group lets pass what both engines know.
func (t *translator) group() error {
	for _, look := range []string{"(?=", "(?!", "(?<=", "(?<!"} {
		if strings.HasPrefix(t.in, look) {
			return errBeyond
		}
	}
	if !strings.HasPrefix(t.in, "(?:") && !strings.HasPrefix(t.in, "(?<") {
		return fmt.Errorf("unknown group %q", t.in[:min(3, len(t.in))])
	}
	t.write(2, "(?")
	return nil
}

const (
	spaceRanges    = `\t-\r \x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}`
	nonSpaceRanges = `\x{0}-\x{8}\x{e}-\x{1f}!-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}` +
		`\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{fefe}\x{ff00}-\x{10ffff}`
)

// escape translates one escape sequence, inside a class or outside.
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
		if !inClass {
			ranges = "[" + ranges + "]"
		}
		t.write(2, ranges)
	case 'd', 'D', 'w', 'W', 't', 'n', 'v', 'f', 'r':
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
	case 'k':
		return errBeyond
	case '0':
		t.write(2, `\x00`)
	default:
		if isDigit(c) {
			return errBeyond
		}
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

// rewriteDash replaces the bare dash just written, which would make a range in a class.
func (t *translator) rewriteDash() error {
	s := t.out.String()
	t.out.Reset()
	t.out.WriteString(s[:len(s)-1] + `\-`)
	return nil
}

// codeEscape translates \xHH, \uHHHH, \u{H...} and \cX.
func (t *translator) codeEscape() error {
	if t.in[1] == 'c' {
		if len(t.in) < 3 || !isLetter(t.in[2]) {
			return errPatternEnd
		}
		t.write(3, fmt.Sprintf(`\x{%x}`, t.in[2]%32))
		return nil
	}
	r, n, ok := codePoint(t.in)
	if !ok {
		return fmt.Errorf("invalid escape %q", t.in[:2])
	}
	if low, m, ok := codePoint(t.in[n:]); ok && utf16.DecodeRune(r, low) != utf8.RuneError {
		r, n = utf16.DecodeRune(r, low), n+m
	}
	t.write(n, fmt.Sprintf(`\x{%x}`, r))
	return nil
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// codePoint reads \xHH, \uHHHH or \u{H...} at the start of s, and how long it is.
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

// property translates \p{...}: the names of scripts are prefixed there.
func (t *translator) property() error {
	end := strings.IndexByte(t.in, '}')
	if len(t.in) < 3 || t.in[2] != '{' || end < 0 {
		return fmt.Errorf("invalid escape %q", t.in[:2])
	}
	name := t.in[3:end]
	if i := strings.IndexByte(name, '='); i >= 0 {
		name = name[i+1:]
	}
	t.write(end+1, t.in[:2]+"{"+name+"}")
	return nil
}

// class translates a character class. An empty one matches nothing there, and everything when negated.
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
