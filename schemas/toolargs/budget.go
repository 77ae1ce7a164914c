package toolargs

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/loopbus/loopbus/schemas/turns"
)

const (
	// maxSteps is the largest number of steps of one validation. A step takes some nanoseconds; most are the check of a
	// value by a schema, or a member visited in the search for another.
	maxSteps = 10_000_000
	// lookEvery is the number of steps between two checks of the context, and before the first.
	lookEvery = 10_000
)

var errEnded = errors.New("context of the validation ended") // callers never get it

// budget is the work that one validation may still do. One goroutine uses it.
type budget struct {
	done     <-chan struct{} // closed when the context ends
	steps    int             // limit
	left     int             // steps
	lookAt   int             // steps left at the next check of done
	patterns time.Duration   // time spent on slow patterns
	limit    time.Duration   // of patterns
	copies   int64           // values that unions may still copy
	memory   int64           // bytes that it may still remember
	err      error           // why the validation ended
}

func newBudget(done <-chan struct{}, steps int, patterns time.Duration) *budget {
	return &budget{done: done, steps: steps, left: steps, lookAt: steps - lookEvery, limit: patterns}
}

// spend spends n steps, and reports whether the validation may continue.
func (b *budget) spend(n int) bool {
	b.left -= n
	return b.left >= b.lookAt || b.goesOn()
}

// goesOn reports whether the budget has steps left and the context has not ended.
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
		b.end(fmt.Errorf("checking the arguments takes more than %d steps", b.steps))
		return false
	}
	b.lookAt = b.left - lookEvery
	return true
}

var errCopies = errors.New("checking the arguments takes too many copies of them")

// copied takes n values from what unions may copy, and reports whether there are so many.
func (b *budget) copied(n int) bool {
	if b.copies < int64(n) && b.err == nil {
		b.end(errCopies)
	}
	b.copies -= int64(n)
	return b.err == nil
}

// remember takes n bytes from what the validation may remember, and reports whether there are so many.
func (b *budget) remember(n int) bool {
	b.memory -= int64(n)
	return b.memory >= 0
}

var errRemembered = errors.New("checking the arguments takes too much memory")

// place waits for one of the places of a channel, and returns a function that leaves it. If the context ends first, the
// validation does, at its next step.
func (b *budget) place(places chan struct{}) (leave func()) {
	select {
	case places <- struct{}{}:
		return func() { <-places }
	case <-b.done:
		b.goesOn()
		return func() {}
	}
}

// end ends the validation.
func (b *budget) end(err error) {
	b.err, b.lookAt = err, math.MaxInt // so that the next spend calls goesOn
}

// patternTimer counts the time of patterns against the budget.
type patternTimer struct {
	budget *budget
	source string
	start  time.Time
}

func (b *budget) startPattern(source string) patternTimer { return patternTimer{b, source, time.Now()} }

// goesOn reports whether the match may continue.
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
	// maxParameters is the largest size of a tool's parameters in bytes.
	maxParameters = 128 << 10
	// maxSchemaNesting is how deep they may be nested.
	maxSchemaNesting = 200
	// maxSchemaValues is how many JSON values may be read to compile them. Members of unions count again for every union
	// around them, because each is also compiled as a separate document. A runner compiles whatever a worker announces:
	// these take some milliseconds.
	maxSchemaValues = 100_000
	// checkSteps is the largest number of steps of [Check], some milliseconds.
	checkSteps = 100_000
	// maxPattern is the largest size of a pattern in bytes; a longer one is no regular expression.
	maxPattern = 4 << 10
	// maxPatternSize is the largest number of instructions of all patterns of a schema together.
	maxPatternSize = 1 << 16
	// maxPatternMemory is how many bytes all patterns of a schema may take, most of them for classes of characters.
	maxPatternMemory = 8 << 20
)

// limits are the remaining limits of the compilation of one schema, and its compiled patterns.
type limits struct {
	values   int
	size     int           // of patterns
	memory   int           // of patterns, in bytes
	time     time.Duration // of one match
	patterns map[string]matcher
	broken   error // of the first pattern that failed

	remembers bool // validations by the schema remember more than the values and their copies
	slow      bool // they match or compile large patterns, or patterns that go back
}

func newLimits(patterns time.Duration) *limits {
	return &limits{values: maxSchemaValues, size: maxPatternSize, memory: maxPatternMemory, time: patterns,
		patterns: make(map[string]matcher)}
}

// take counts the values of a document before it is compiled.
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

// pattern compiles a pattern, once. After the first one that fails, all fail: what they would cost is not counted.
func (l *limits) pattern(source string) (matcher, error) {
	if m := l.patterns[source]; m != nil || l.broken != nil {
		return m, l.broken
	}
	m, err := compilePattern(source, l.time)
	if err == nil {
		l.slow = l.slow || m.slow()
		l.size -= m.size()
		l.memory -= m.memory()
		switch {
		case l.size < 0:
			err = fmt.Errorf("the patterns up to this one come to more than %d instructions", maxPatternSize)
		case l.memory < 0:
			err = fmt.Errorf("the patterns up to this one take more than %d MiB of memory", maxPatternMemory>>20)
		}
	}
	if err != nil {
		l.broken = fmt.Errorf("pattern %.200q: %w", source, err)
		return nil, l.broken
	}
	l.patterns[source] = m
	return m, nil
}

const (
	// maxValues is how many JSON values arguments may have, also within a text that a rewrite parses.
	maxValues = 1 << 18
	// maxCopies is how many copies of the arguments the unions of a schema may have at once: each union in a union has
	// one of what it checks.
	maxCopies = 8
	// valueBytes is the memory of a value while its arguments are checked: parsed, copied and printed.
	valueBytes = 1 << 10
	// levelBytes is the memory of the stack for a level of nested values, beyond the first ones.
	levelBytes, flat = 32 << 10, 100
	// tiny and small are the memory up to which a check waits only for others that take no more. Most are tiny.
	tiny, small, minRoom = 256 << 10, 1 << 20, 64 << 10
	// minRemembered is what each validation may remember that remembers anything.
	minRemembered = 512 << 10
	// slowBytes is what a check by a slow schema takes at least: so four are done at once.
	slowBytes = 8 << 20
	// smallRoom is the memory that all tiny checks of a process may take together, all small ones, and all slow ones;
	// largeRoom that of the others. One may take all of it.
	smallRoom, largeRoom = 32 << 20, 128 << 20
)

// A class of checks waits for others of its class only.
type class int

const (
	classTiny class = iota
	classSmall
	classSlow // each may take a second
	classLarge
)

// rooms and largeOnes are what the checks of a process share: models and clients send arguments to many tools at once.
var rooms, largeOnes = turns.New[class](smallRoom), turns.New[class](largeRoom)

// enter waits until there is room to check arguments that take n bytes, and may have more bytes remembered.
func enter(ctx context.Context, n, more int64, slow bool) (leave func(), err error) {
	of, room := classLarge, largeOnes
	switch {
	case n > small:
	case slow:
		of, room = classSlow, rooms
	case n > tiny:
		of, room = classSmall, rooms
	default:
		of, room = classTiny, rooms
	}
	if n += more; slow {
		n = max(n, slowBytes)
	}
	if leave, err = room.Wait(ctx, of, int(n)); err != nil {
		return nil, context.Cause(ctx)
	}
	return leave, nil
}

// memoryFor returns how many bytes a validation of arguments that take n bytes may remember.
func (s *Schema) memoryFor(n int64) int64 {
	if !s.remembers {
		return 0
	}
	return n + minRemembered
}

// roomOf estimates the memory that the check takes, from above: each value but one stands behind one of these
// characters, also in a text, where they may be escaped; and each level may be visited by a row of references.
func roomOf(args []byte) int64 {
	values, depth, deepest := 1, 0, 0
	for i, c := range args {
		switch c {
		case ',', ':':
			values++
		case '[', '{':
			values++
			depth++
			deepest = max(deepest, depth)
		case ']', '}':
			depth = max(depth-1, 0)
		case 'u':
			if i > 0 && args[i-1] == '\\' {
				values++
			}
		}
	}
	n := min(values, maxValues)*valueBytes + 4*len(args) + max(0, min(deepest, maxNesting)-flat)*levelBytes
	return int64(min(max(n, minRoom), largeRoom))
}
