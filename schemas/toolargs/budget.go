package toolargs

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/loopbus/loopbus/schemas/toolargs/internal/ecmascript"
)

const (
	// maxSteps is how much work one validation may be: steps of some nanoseconds each, most of them a schema checked
	// against a value, or a member looked at to find another.
	maxSteps = 10_000_000
	// lookEvery is how many steps go by between two looks at the context, and before the first.
	lookEvery = 10_000
)

var (
	errWork  = fmt.Errorf("checking the arguments takes more than %d steps", maxSteps)
	errEnded = errors.New("nobody waits for the validation any more") // never seen by callers
)

// budget is the work that one validation may still do. It is used by one goroutine.
type budget struct {
	done     <-chan struct{} // closed when the validation is to end
	left     int             // steps
	lookAt   int             // what is left when done is looked at again
	patterns time.Duration   // spent on patterns that may take long
	limit    time.Duration   // of patterns
	err      error           // why there is nothing left
}

func newBudget(done <-chan struct{}, patterns time.Duration) *budget {
	return &budget{done: done, left: maxSteps, lookAt: maxSteps - lookEvery, limit: patterns}
}

// spend takes n steps, and reports whether the validation may go on.
func (b *budget) spend(n int) bool {
	b.left -= n
	return b.left >= b.lookAt || b.goesOn()
}

// goesOn reports whether there is something left, and somebody waiting.
func (b *budget) goesOn() bool {
	if b.err != nil {
		return false
	}
	select {
	case <-b.done:
		b.end(errEnded)
		return false
	default:
	}
	if b.left < 0 {
		b.end(errWork)
		return false
	}
	b.lookAt = b.left - lookEvery
	return true
}

// end ends the validation.
func (b *budget) end(err error) {
	b.err, b.lookAt = err, math.MaxInt // so that spend sees it at once
}

// patternTimer counts the time of patterns against the budget.
type patternTimer struct {
	budget *budget
	source string
	start  time.Time
}

func (b *budget) startPattern(source string) patternTimer { return patternTimer{b, source, time.Now()} }

// goesOn reports whether the pattern may be tried on.
func (t patternTimer) goesOn() bool {
	if t.budget.goesOn() && t.budget.patterns+time.Since(t.start) > t.budget.limit {
		t.end()
	}
	return t.budget.err == nil
}

// end ends the validation because of the pattern.
func (t patternTimer) end() {
	t.budget.end(fmt.Errorf("checking the arguments takes more than %v for the pattern %q", t.budget.limit, t.source))
}

func (t patternTimer) stop() { t.budget.patterns += time.Since(t.start) }

const (
	// maxParameters is how many bytes the schema of a tool's parameters may have.
	maxParameters = 128 << 10
	// maxSchemaNesting is how deep it may be nested.
	maxSchemaNesting = 200
	// maxSchemaValues is how many JSON values may be read to compile it. Members of unions count again for every union
	// around them, because each is compiled as a document of its own too.
	maxSchemaValues = 1_000_000
	// maxPattern is how many bytes a pattern may have; a longer string is no regular expression.
	maxPattern = 4 << 10
	// maxPatternSize is how many instructions all the patterns of a schema may come to.
	maxPatternSize = ecmascript.MaxSize
)

// limits is what the compilation of one schema may still take, and the patterns it has compiled.
type limits struct {
	values   int
	size     int           // of patterns
	time     time.Duration // of one match
	patterns map[string]matcher
}

func newLimits(patterns time.Duration) *limits {
	return &limits{values: maxSchemaValues, size: maxPatternSize, time: patterns, patterns: make(map[string]matcher)}
}

// take counts the values of a document that is to be compiled.
func (l *limits) take(v *value) error {
	l.values -= 1 + len(v.elems)
	if l.values < 0 {
		return fmt.Errorf("there are unions in unions in it: it comes to more than %d values", maxSchemaValues)
	}
	for i := range v.elems {
		if err := l.take(&v.elems[i].val); err != nil {
			return err
		}
	}
	return nil
}

// pattern compiles a pattern, once.
func (l *limits) pattern(source string) (matcher, error) {
	if m := l.patterns[source]; m != nil {
		return m, nil
	}
	m, err := compilePattern(source, l.time)
	if err == nil {
		if l.size -= m.size(); l.size < 0 {
			err = fmt.Errorf("the patterns up to this one come to more than %d instructions", maxPatternSize)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("pattern %.200q: %w", source, err)
	}
	l.patterns[source] = m
	return m, nil
}
