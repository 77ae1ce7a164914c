package toolargs

import (
	"fmt"

	"github.com/loopbus/loopbus/schemas/toolargs/internal/ecmascript"
)

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
	size     int // of patterns
	patterns map[string]matcher
}

func newLimits() *limits {
	return &limits{values: maxSchemaValues, size: maxPatternSize, patterns: make(map[string]matcher)}
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
	m, err := compilePattern(source)
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
