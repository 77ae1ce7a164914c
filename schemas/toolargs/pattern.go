package toolargs

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"time"

	"github.com/dlclark/regexp2"

	"github.com/loopbus/loopbus/schemas/toolargs/internal/ecmascript"
)

// maxPatternTime is how long all matches of one validation may take together, not counting quick ones.
const maxPatternTime = time.Second

// matchSteps is the number of steps for a match in a short text.
const matchSteps = 32

// matcher is a compiled pattern. It is safe for concurrent use.
type matcher interface {
	// match reports whether the pattern matches anywhere in s. It is false if the budget ends first.
	match(b *budget, s string) bool
	// size returns the number of instructions of the pattern.
	size() int
}

// compilePattern compiles a regular expression of JavaScript, as with its flag u. Go's engine is used for every pattern
// that it accepts, because it takes linear time. Patterns with lookaround, backreferences or more than 1000 repetitions
// are left to regexp2, each match of which ends after limit.
func compilePattern(pattern string, limit time.Duration) (matcher, error) {
	if len(pattern) > maxPattern {
		return nil, fmt.Errorf("it has %d bytes, more than %d", len(pattern), maxPattern)
	}
	plain, err := ecmascript.ForGo(pattern)
	if err == nil {
		var m matcher
		if m, err = compileLinear(pattern, plain); err == nil {
			return m, nil
		}
	}
	var broken *syntax.Error
	if errors.Is(err, ecmascript.ErrBeyond) || errors.As(err, &broken) && broken.Code == syntax.ErrInvalidRepeatSize {
		return compileBacktracking(pattern, limit)
	}
	return nil, patternError(err)
}

// patternError removes the words that repeat that a pattern is wrong.
func patternError(err error) error {
	return errors.New(strings.TrimPrefix(err.Error(), "error parsing regexp: "))
}

// linear is a pattern for Go's engine, whose time is proportional to the sizes of the text and of the pattern.
type linear struct {
	source       string
	re           *regexp.Regexp
	instructions int
}

func (p *linear) size() int { return p.instructions }

func compileLinear(source, translated string) (matcher, error) {
	tree, err := syntax.Parse(translated, syntax.Perl)
	if err != nil {
		return nil, err
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return nil, err
	}
	if len(prog.Inst) > maxPatternSize {
		return nil, fmt.Errorf("it comes to %d instructions, more than %d", len(prog.Inst), maxPatternSize)
	}
	re, err := regexp.Compile(translated)
	return &linear{source, re, len(prog.Inst)}, err
}

// instructionsPerStep is how many instructions of a pattern for a character take as long as a step.
const instructionsPerStep = 16

func (p *linear) match(b *budget, s string) bool {
	const quick = 1 << 18 // instructions for characters: some milliseconds
	if !b.spend(matchSteps + len(s)/4) {
		return false
	}
	if work := (len(s) + 1) * p.instructions; work <= quick {
		return b.spend(work/instructionsPerStep) && p.re.MatchString(s)
	}
	timer := b.startPattern(p.source)
	defer timer.stop()
	text := &interruptible{Reader: strings.NewReader(s), timer: timer, pace: quick / p.instructions}
	return p.re.MatchReader(text) && b.err == nil
}

// interruptible is a text that ends when the budget does.
type interruptible struct {
	*strings.Reader
	timer patternTimer
	pace  int // characters between two checks of the clock
	read  int // characters since the last check
}

func (r *interruptible) ReadRune() (rune, int, error) {
	if r.read++; r.read > r.pace {
		r.read = 0
		if !r.timer.goesOn() {
			return 0, 0, errEnd
		}
	}
	return r.Reader.ReadRune()
}

// backtracking is a pattern for regexp2, which tries it by backtracking as JavaScript does.
type backtracking struct {
	source     string
	translated string
	re         *regexp2.Regexp // for short texts: it keeps the memory of its longest match
}

// long limits the matches of long texts at the same time: one may take some hundred times the memory of its text.
var long = make(chan struct{}, 2)

func (p *backtracking) size() int { return len(p.translated) }

func compileBacktracking(pattern string, limit time.Duration) (matcher, error) {
	translated, err := ecmascript.ForRegexp2(pattern)
	var re *regexp2.Regexp
	if err == nil {
		re, err = newBacktracking(translated, limit)
	}
	if err != nil {
		return nil, patternError(err)
	}
	return &backtracking{pattern, translated, re}, nil
}

func newBacktracking(translated string, limit time.Duration) (*regexp2.Regexp, error) {
	re, err := regexp2.Compile(translated, regexp2.ECMAScript|regexp2.Unicode)
	if err == nil {
		re.MatchTimeout = limit
	}
	return re, err
}

func (p *backtracking) match(b *budget, s string) bool {
	const short = 4 << 10
	if !b.spend(matchSteps + len(s)/8*(1+len(p.translated)/64)) {
		return false
	}
	re := p.re
	if len(s) > short {
		select {
		case long <- struct{}{}:
			defer func() { <-long }()
		case <-b.done:
		}
		re, _ = newBacktracking(p.translated, re.MatchTimeout) // it compiled before, so it does again
	}
	timer := b.startPattern(p.source)
	defer timer.stop()
	if !timer.goesOn() {
		return false
	}
	matches, err := re.MatchString(s)
	if err != nil { // the only possible error is the timeout
		timer.end()
	}
	return matches
}
