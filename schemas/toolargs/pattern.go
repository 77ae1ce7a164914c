package toolargs

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"time"

	"github.com/dlclark/regexp2/v2"

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
	// size returns the number of instructions of the pattern, and memory about how many bytes it takes.
	size() int
	memory() int
	// slow reports whether a match takes a second or megabytes, however short the text is.
	slow() bool
}

// compilePattern compiles a regular expression of JavaScript, as with its flag u. Go's engine is used for every pattern
// that it accepts, because it takes linear time. Patterns with lookaround, backreferences or more than 1000 repetitions
// are left to regexp2, each match of which ends after limit.
func compilePattern(pattern string, limit time.Duration) (matcher, error) {
	if len(pattern) > maxPattern {
		return nil, fmt.Errorf("it has %d bytes, more than %d", len(pattern), maxPattern)
	}
	plain, classes, err := ecmascript.ForGo(pattern)
	if classes /= rangesPerInstruction; classes > maxPatternSize {
		return nil, errors.New("it names too many classes of characters")
	}
	if err == nil {
		var m matcher
		if m, err = compileLinear(pattern, plain, classes); err == nil {
			return m, nil
		}
	}
	if errors.Is(err, ecmascript.ErrBeyond) || isBeyondGo(err) {
		return compileBacktracking(pattern, classes, limit)
	}
	return nil, patternError(err)
}

// isBeyondGo reports whether Go's engine refuses what JavaScript may have: repetitions and names of groups.
func isBeyondGo(err error) bool {
	var broken *syntax.Error
	return errors.As(err, &broken) &&
		(broken.Code == syntax.ErrInvalidRepeatSize || broken.Code == syntax.ErrInvalidNamedCapture)
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
	classes      int // in instructions that take as long to compile
	bytes        int
}

func (p *linear) size() int   { return p.instructions + p.classes }
func (p *linear) memory() int { return p.bytes }
func (p *linear) slow() bool  { return p.instructions > ordinary }

func compileLinear(source, translated string, classes int) (matcher, error) {
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
	bytes := bytesOf(prog)
	if bytes > maxPatternMemory {
		return nil, fmt.Errorf("it takes %d MiB of memory, more than %d", bytes>>20, maxPatternMemory>>20)
	}
	re, err := regexp.Compile(translated)
	return &linear{source, re, len(prog.Inst), classes, bytes}, err
}

// bytesOf returns how much memory a program takes once it is compiled, at most. Instructions may share a class of
// characters; those of a pattern that matches from the beginning in one pass, which are at most a thousand, have half
// as much again of their own.
func bytesOf(prog *syntax.Prog) (n int) {
	const instruction, onePass = 64, 1000
	classes := make(map[*rune]bool)
	for _, in := range prog.Inst {
		n += instruction
		if len(in.Rune) == 0 {
			continue
		}
		if size := 4 * cap(in.Rune); !classes[&in.Rune[0]] {
			classes[&in.Rune[0]] = true
			n += size
		}
		if len(prog.Inst) < onePass {
			n += instruction + 2*len(in.Rune)
		}
	}
	return n
}

// rangesPerInstruction is how many ranges of characters take as long to compile as an instruction.
const rangesPerInstruction = 4

// instructionsPerStep is how many instructions of a pattern for a character take as long as a step.
const instructionsPerStep = 16

// ordinary is the largest number of instructions of a pattern that is not slow. For each instruction the engine takes
// some hundred bytes.
const ordinary = 1 << 10

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
	source       string
	re           *regexp2.Regexp // with a little memory, which it keeps from one match to the next
	limit        time.Duration
	instructions int
}

const (
	// fewRemembered and mostRemembered are how many integers a match may remember to go back: 32 KiB at any time, which a
	// pattern keeps, 32 MiB for who has one of the places in long. JavaScript's engine V8 has 64 MB.
	fewRemembered, mostRemembered = 1 << 12, 1 << 22
	// shortText is the largest size of a text in bytes that is tried with a little memory first.
	shortText = 4 << 10
)

// long limits the matches that may take much memory at the same time.
var long = make(chan struct{}, 2)

func (p *backtracking) size() int   { return p.instructions }
func (p *backtracking) memory() int { return 256*p.instructions + 8*fewRemembered }
func (p *backtracking) slow() bool  { return true }

func compileBacktracking(pattern string, classes int, limit time.Duration) (matcher, error) {
	size := len(pattern) + resets(pattern) + classes
	if size > maxPatternSize {
		return nil, fmt.Errorf("with its groups in groups and its classes it comes to %d instructions, more than %d", size,
			maxPatternSize)
	}
	re, err := newBacktracking(pattern, limit, fewRemembered)
	if err != nil {
		return nil, patternError(err)
	}
	return &backtracking{pattern, re, limit, size}, nil
}

// resets estimates from above what regexp2 adds to a pattern. A repetition forgets what each group in it captured, and
// each repetition around the repetition makes a copy of that.
func resets(pattern string) int {
	depth, sum, inClass := 0, 0, false
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\':
			i++
		case c == '[' || c == ']':
			inClass = c == '['
		case inClass:
		case c == '(':
			depth++
			sum += depth * depth
		case c == ')':
			depth--
		}
	}
	return sum
}

func newBacktracking(pattern string, limit time.Duration, remembered int) (*regexp2.Regexp, error) {
	re, err := regexp2.Compile(pattern, regexp2.ECMAScript|regexp2.Unicode,
		regexp2.OptionMaxBacktrackingStackSize(remembered))
	if err == nil {
		re.MatchTimeout = limit
	}
	return re, err
}

func (p *backtracking) match(b *budget, s string) bool {
	if !b.spend(matchSteps + len(s)/8*(1+len(p.source)/64)) {
		return false
	}
	err := regexp2.ErrBacktrackingStackLimit
	var matches bool
	if len(s) <= shortText {
		matches, err = p.try(b, p.re, s)
	}
	if errors.Is(err, regexp2.ErrBacktrackingStackLimit) {
		matches, err = p.tryAlone(b, s)
	}
	switch {
	case err == nil:
	case errors.Is(err, regexp2.ErrBacktrackingStackLimit):
		b.end(fmt.Errorf("checking the arguments takes more than %d MiB of memory for the pattern %q",
			mostRemembered>>17, p.source))
	default: // the timeout
		b.startPattern(p.source).end()
	}
	return matches
}

func (p *backtracking) try(b *budget, re *regexp2.Regexp, s string) (bool, error) {
	timer := b.startPattern(p.source)
	defer timer.stop()
	if !timer.goesOn() {
		return false, nil
	}
	return re.MatchString(s)
}

// tryAlone takes the memory that a match in a long text needs, and lets go of all of it. The wait for it takes no time
// of the pattern.
func (p *backtracking) tryAlone(b *budget, s string) (bool, error) {
	defer b.place(long)()
	re, err := newBacktracking(p.source, p.limit, mostRemembered) // it compiled before, so it does again
	if err != nil {
		return false, err
	}
	return p.try(b, re, s)
}
