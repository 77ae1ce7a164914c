package toolargs

import (
	"errors"
	"strconv"
	"strings"
)

// quantifier says how often an atom is repeated; max below 0 is without bound.
type quantifier struct {
	min, max int
	lazy     bool
}

func (p *btParser) quantifier() (q quantifier, err error) {
	switch {
	case p.take("*"):
		q = quantifier{min: 0, max: -1}
	case p.take("+"):
		q = quantifier{min: 1, max: -1}
	case p.take("?"):
		q = quantifier{min: 0, max: 1}
	case p.take("{"):
		if q, err = p.counted(); err != nil {
			return q, err
		}
	default:
		return quantifier{min: 1, max: 1}, nil
	}
	q.lazy = p.take("?")
	return q, nil
}

// counted parses {n}, {n,} and {n,m} behind the brace.
func (p *btParser) counted() (q quantifier, err error) {
	text, rest, closed := strings.Cut(p.in, "}")
	low, high, ranged := strings.Cut(text, ",")
	if q.min, err = strconv.Atoi(low); err != nil || !closed {
		return q, errors.New("incomplete quantifier")
	}
	switch {
	case !ranged:
		q.max = q.min
	case high == "":
		q.max = -1
	default:
		if q.max, err = strconv.Atoi(high); err != nil || q.max < q.min {
			return q, errors.New("numbers out of order in quantifier")
		}
	}
	p.in = rest
	return q, nil
}

// quantifiedSet repeats a single character without recursion: runs of characters may be long.
func (p *btParser) quantifiedSet(set func(rune) bool) (attempt, error) {
	q, err := p.quantifier()
	if err != nil {
		return nil, err
	}
	return func(m *matching, at int, next func(int) bool) bool {
		longest := at
		for longest < len(m.text) && (q.max < 0 || longest-at < q.max) && set(m.text[longest]) {
			longest++
		}
		shortest := at + q.min
		for n := 0; n <= longest-shortest; n++ {
			if m.left--; m.left <= 0 {
				return false
			}
			end := longest - n
			if q.lazy {
				end = shortest + n
			}
			if next(end) {
				return true
			}
		}
		return false
	}, nil
}

// quantified repeats an atom that captures the groups from up to, but not including, to.
func (p *btParser) quantified(atom attempt, from, to int) (attempt, error) {
	q, err := p.quantifier()
	if err != nil || q.min == 1 && q.max == 1 {
		return atom, err
	}
	return func(m *matching, at int, next func(int) bool) bool {
		return m.repeat(atom, q, 0, at, from, to, next)
	}, nil
}

// repeat matches the atom once more, or goes on behind it. A repetition forgets what the groups of the one before
// captured; one that is not needed and matches nothing is refused, for it would go on for ever.
func (m *matching) repeat(atom attempt, q quantifier, n, at, from, to int, next func(int) bool) bool {
	if m.left--; m.level >= maxRepetitions {
		m.left = 0
	}
	if m.left <= 0 {
		return false
	}
	m.level++
	defer func() { m.level-- }()
	more := func() bool {
		if q.max >= 0 && n >= q.max {
			return false
		}
		undo := m.undo()
		clear(m.captures[from:to])
		if atom(m, at, func(end int) bool {
			return (end != at || n < q.min) && m.repeat(atom, q, n+1, end, from, to, next)
		}) {
			return true
		}
		undo()
		return false
	}
	if n < q.min {
		return more()
	}
	if q.lazy {
		return next(at) || more()
	}
	return more() || next(at)
}
