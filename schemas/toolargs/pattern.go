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

// maxPatternTime is how long the patterns of one validation may try, beyond what is over at once.
const maxPatternTime = time.Second

// matchSteps is what a match in a short text counts for.
const matchSteps = 32

// matcher is a compiled pattern. It is safe for concurrent use.
type matcher interface {
	// match reports whether the pattern matches somewhere in s. It is false where the budget ends first.
	match(b *budget, s string) bool
	// size is how many instructions the pattern comes to.
	size() int
}

// compilePattern compiles a regular expression of JavaScript, as with its flag u. Go's engine takes linear time, so it
// has whatever it can take; what it refuses, lookaround, backreferences and repetitions beyond 1000, has regexp2, each
// match of which ends after limit.
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

// patternError takes the words away that say once more that a pattern is wrong.
func patternError(err error) error {
	return errors.New(strings.TrimPrefix(err.Error(), "error parsing regexp: "))
}

// linear is a pattern for Go's engine, whose time is that of the text multiplied by that of the pattern.
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

func (p *linear) match(b *budget, s string) bool {
	const quick = 1 << 18 // instructions for characters: some milliseconds
	if !b.spend(matchSteps + len(s)/4) {
		return false
	}
	if len(s)*p.instructions <= quick {
		return p.re.MatchString(s)
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
	pace  int // characters between two looks at the clock
	read  int // since the last
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

// backtracking is a pattern that is tried as JavaScript tries it, going back, for as long as it may.
type backtracking struct {
	source     string
	translated string
	re         *regexp2.Regexp // for short texts: it keeps the memory of its longest match
}

// long has the matches of long texts wait for each other: one may take some hundred times the memory of its text.
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
		re, _ = newBacktracking(p.translated, re.MatchTimeout) // it has compiled before
	}
	timer := b.startPattern(p.source)
	defer timer.stop()
	if !timer.goesOn() {
		return false
	}
	matches, err := re.MatchString(s)
	if err != nil { // the only error there is: it took too long
		timer.end()
	}
	return matches
}
