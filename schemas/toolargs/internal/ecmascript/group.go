package ecmascript

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// group translates the opening of a group. Names become numbers: regexp2 numbers named groups after all others.
func (t *translator) group() error {
	o := opening{at: len(t.out), groups: t.groups, behind: len(t.open) > 0 && t.open[len(t.open)-1].behind}
	if strings.HasPrefix(t.in, "(?<=") || strings.HasPrefix(t.in, "(?<!") {
		o.behind = true
	} else if strings.HasPrefix(t.in, "(?=") || strings.HasPrefix(t.in, "(?!") {
		o.behind = false
	}
	t.open = append(t.open, o)
	switch {
	case !strings.HasPrefix(t.in, "(?"):
		t.groups++
		t.write(1, "(")
	case strings.HasPrefix(t.in, "(?:"):
		t.write(3, "(?:")
	case isNamed(t.in):
		t.groups++
		if t.beyond {
			t.write(strings.IndexByte(t.in, '>')+1, "(")
		} else {
			t.write(3, "(?<")
		}
	default:
		for _, look := range []string{"(?=", "(?!", "(?<=", "(?<!"} {
			if !strings.HasPrefix(t.in, look) {
				continue
			}
			if !t.beyond {
				return ErrBeyond
			}
			t.write(len(look), look)
			return nil
		}
		return fmt.Errorf("unknown group %q", t.in[:min(3, len(t.in))])
	}
	return nil
}

// opening is a group that is not closed yet.
type opening struct {
	at     int  // where it begins in the output
	groups int  // that capture, before it
	behind bool // it is matched from right to left
}

// close translates the end of a group. In JavaScript each repetition drops what the groups in it captured in the
// repetition before. The translation pops the captures at the beginning of a repetition.
func (t *translator) close() error {
	t.write(1, ")")
	if len(t.open) == 0 {
		return nil // the engine refuses it
	}
	o := t.open[len(t.open)-1]
	t.open = t.open[:len(t.open)-1]
	if !t.forget || t.in == "" || strings.IndexByte("*+{", t.in[0]) < 0 {
		return nil
	}
	pops, group := "", string(t.out[o.at:])
	for n := o.groups + 1; n <= t.groups; n++ {
		pops += fmt.Sprintf("(?(%d)(?<-%d>))", n, n)
	}
	if o.behind {
		pops, group = group, pops
	}
	t.out = append(t.out[:o.at], "(?:"+pops+group+")"...)
	if len(t.out) > MaxSize {
		return fmt.Errorf("it comes to more than %d instructions", MaxSize)
	}
	return nil
}

func isNamed(group string) bool {
	return strings.HasPrefix(group, "(?<") && !strings.HasPrefix(group, "(?<=") && !strings.HasPrefix(group, "(?<!")
}

var groupName = regexp.MustCompile(`^[\p{L}_$][\p{L}\p{N}_$]*$`)

// groupNames numbers the named groups of a pattern.
func groupNames(pattern string) (map[string]int, error) {
	names, groups, inClass := map[string]int{}, 0, false
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\':
			i++
		case c == '[' || c == ']':
			inClass = c == '['
		case c != '(' || inClass:
		case !strings.HasPrefix(pattern[i:], "(?"):
			groups++
		case isNamed(pattern[i:]):
			groups++
			name, _, closed := strings.Cut(pattern[i+3:], ">")
			if !closed || !groupName.MatchString(name) || names[name] > 0 {
				return nil, fmt.Errorf("invalid or repeated group name %q", name)
			}
			names[name] = groups
		}
	}
	return names, nil
}

// reference translates \1 and \k<name>. It puts the reference into a group, so that a digit after it stays a digit.
func (t *translator) reference() error {
	if !t.beyond {
		return ErrBeyond
	}
	digits := len(t.in[1:]) - len(strings.TrimLeft(t.in[1:], "0123456789"))
	length, index := 1+digits, 0
	if name, ok := strings.CutPrefix(t.in, `\k<`); ok {
		name, _, _ = strings.Cut(name, ">")
		if index = t.names[name]; index == 0 {
			return fmt.Errorf("there is no group %q", name)
		}
		length = len(`\k<>`) + len(name)
	} else {
		var err error
		if index, err = strconv.Atoi(t.in[1:length]); err != nil {
			return fmt.Errorf("invalid escape %q", t.in[:2])
		}
	}
	t.highest = max(t.highest, index)
	t.write(length, fmt.Sprintf(`(?:\%d)`, index))
	return nil
}
