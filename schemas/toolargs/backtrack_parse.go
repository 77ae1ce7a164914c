package toolargs

import (
	"errors"
	"fmt"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// compileBacktracker compiles a pattern that the translator has already found well-formed as far as it went.
func compileBacktracker(pattern string) (*backtracker, error) {
	p := &btParser{in: pattern, names: groupNames(pattern)}
	root, err := p.alternatives()
	if err == nil && p.in != "" {
		err = errors.New("unmatched parenthesis")
	}
	if err == nil && p.highest > p.groups {
		err = fmt.Errorf("there is no group %d", p.highest)
	}
	if err != nil {
		return nil, err
	}
	return &backtracker{root: root, groups: p.groups}, nil
}

type btParser struct {
	in      string
	groups  int
	highest int            // group referred to
	names   map[string]int // of the groups, known beforehand: a reference may come first
}

// groupNames numbers the named groups of a pattern.
func groupNames(pattern string) map[string]int {
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
			name, _, _ := strings.Cut(pattern[i+3:], ">")
			names[name] = groups
		}
	}
	return names
}

func isNamed(group string) bool {
	return strings.HasPrefix(group, "(?<") && !strings.HasPrefix(group, "(?<=") && !strings.HasPrefix(group, "(?<!")
}

func (p *btParser) take(prefix string) bool {
	rest, ok := strings.CutPrefix(p.in, prefix)
	p.in = rest
	return ok
}

func (p *btParser) alternatives() (attempt, error) {
	var choices []attempt
	for {
		seq, err := p.sequence()
		if err != nil {
			return nil, err
		}
		if choices = append(choices, seq); !p.take("|") {
			break
		}
	}
	if len(choices) == 1 {
		return choices[0], nil
	}
	return func(m *matching, at int, next func(int) bool) bool {
		return slices.ContainsFunc(choices, func(choice attempt) bool { return choice(m, at, next) })
	}, nil
}

func (p *btParser) sequence() (attempt, error) {
	var terms []attempt
	for p.in != "" && p.in[0] != '|' && p.in[0] != ')' {
		term, err := p.term()
		if err != nil {
			return nil, err
		}
		terms = append(terms, term)
	}
	return inOrder(terms), nil
}

func inOrder(terms []attempt) attempt {
	if len(terms) == 0 {
		return func(_ *matching, at int, next func(int) bool) bool { return next(at) }
	}
	if len(terms) == 1 {
		return terms[0]
	}
	first, rest := terms[0], inOrder(terms[1:])
	return func(m *matching, at int, next func(int) bool) bool {
		return first(m, at, func(end int) bool { return rest(m, end, next) })
	}
}

// term parses an assertion, or an atom with its quantifier.
func (p *btParser) term() (attempt, error) {
	switch {
	case p.take("^"):
		return when(func(_ *matching, at int) bool { return at == 0 }), nil
	case p.take("$"):
		return when(func(m *matching, at int) bool { return at == len(m.text) }), nil
	case p.take(`\b`):
		return when(func(m *matching, at int) bool { return m.atBoundary(at) }), nil
	case p.take(`\B`):
		return when(func(m *matching, at int) bool { return !m.atBoundary(at) }), nil
	case p.take("(?="):
		return p.lookaround(ahead, true)
	case p.take("(?!"):
		return p.lookaround(ahead, false)
	case p.take("(?<="):
		return p.lookaround(behind, true)
	case p.take("(?<!"):
		return p.lookaround(behind, false)
	}
	before := p.groups
	if p.in[0] == '(' {
		group, err := p.group()
		if err != nil {
			return nil, err
		}
		return p.quantified(group, before+1, p.groups+1)
	}
	if ref, ok, err := p.backreference(); ok || err != nil {
		if err != nil {
			return nil, err
		}
		return p.quantified(ref, 0, 0)
	}
	set, err := p.set()
	if err != nil {
		return nil, err
	}
	return p.quantifiedSet(set)
}

func when(holds func(m *matching, at int) bool) attempt {
	return func(m *matching, at int, next func(int) bool) bool { return holds(m, at) && next(at) }
}

func (m *matching) atBoundary(at int) bool {
	word := func(i int) bool {
		return i >= 0 && i < len(m.text) && m.text[i] < utf8.RuneSelf &&
			(m.text[i] == '_' || isDigit(byte(m.text[i])) || isLetter(byte(m.text[i])))
	}
	return word(at-1) != word(at)
}

// lookaround parses the rest of an assertion whose opening has been taken.
func (p *btParser) lookaround(look func(body attempt, m *matching, at int) bool, wanted bool) (attempt, error) {
	body, err := p.alternatives()
	if err == nil && !p.take(")") {
		err = errors.New("missing )")
	}
	if err != nil {
		return nil, err
	}
	return func(m *matching, at int, next func(int) bool) bool {
		undo := m.undo()
		if look(body, m, at) == wanted && next(at) {
			return true
		}
		undo()
		return false
	}, nil
}

func ahead(body attempt, m *matching, at int) bool {
	return body(m, at, func(int) bool { return true })
}

// behind tries every place before: which one JavaScript would find first makes no difference to whether there is one.
func behind(body attempt, m *matching, at int) bool {
	for start := at; start >= 0; start-- {
		if body(m, start, func(end int) bool { return end == at }) {
			return true
		}
	}
	return false
}

// group parses a group from its parenthesis on.
func (p *btParser) group() (attempt, error) {
	index := 0
	switch {
	case p.take("(?:"):
	case isNamed(p.in):
		end := strings.IndexByte(p.in, '>')
		if end < 0 {
			return nil, errors.New("group without a name")
		}
		p.in = p.in[end+1:]
		p.groups++
		index = p.groups
	default:
		p.in = p.in[1:]
		p.groups++
		index = p.groups
	}
	body, err := p.alternatives()
	if err == nil && !p.take(")") {
		err = errors.New("missing )")
	}
	if err != nil || index == 0 {
		return body, err
	}
	return func(m *matching, at int, next func(int) bool) bool {
		return body(m, at, func(end int) bool {
			was := m.captures[index]
			m.captures[index] = [2]int{at, end}
			if next(end) {
				return true
			}
			m.captures[index] = was
			return false
		})
	}, nil
}

// backreference parses \1 and \k<name>.
func (p *btParser) backreference() (attempt, bool, error) {
	index := 0
	switch {
	case p.take(`\k<`):
		name, rest, _ := strings.Cut(p.in, ">")
		p.in = rest
		if index = p.names[name]; index == 0 {
			return nil, true, fmt.Errorf("there is no group %q", name)
		}
	case len(p.in) > 1 && p.in[0] == '\\' && p.in[1] >= '1' && p.in[1] <= '9':
		end := 2
		for end < len(p.in) && isDigit(p.in[end]) {
			end++
		}
		n, err := strconv.Atoi(p.in[1:end])
		if err != nil {
			return nil, true, err
		}
		p.in, index = p.in[end:], n
		p.highest = max(p.highest, n)
	default:
		return nil, false, nil
	}
	return func(m *matching, at int, next func(int) bool) bool {
		c := m.captures[index]
		end := at + c[1] - c[0]
		return end <= len(m.text) && slices.Equal(m.text[at:end], m.text[c[0]:c[1]]) && next(end)
	}, true, nil
}

// set parses what matches a single character, with the help of the translator.
func (p *btParser) set() (func(rune) bool, error) {
	if strings.IndexByte("*+?{}])", p.in[0]) >= 0 {
		return nil, fmt.Errorf("unexpected %q", p.in[:1])
	}
	t := translator{in: p.in}
	var err error
	switch p.in[0] {
	case '\\':
		err = t.escape(false)
	case '[':
		err = t.class()
	case '.':
		t.dot()
	default:
		r, size := utf8.DecodeRuneInString(p.in)
		p.in = p.in[size:]
		return func(c rune) bool { return c == r }, nil
	}
	if err != nil {
		return nil, err
	}
	p.in = t.in
	re, err := syntax.Parse(t.out.String(), syntax.Perl)
	if err != nil {
		return nil, err
	}
	ranges := re.Rune
	if re.Op == syntax.OpLiteral {
		ranges = []rune{re.Rune[0], re.Rune[0]}
	}
	return func(c rune) bool {
		for i := 0; i+1 < len(ranges); i += 2 {
			if c >= ranges[i] && c <= ranges[i+1] {
				return true
			}
		}
		return re.Op == syntax.OpAnyChar
	}, nil
}
