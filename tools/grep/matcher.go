package grep

import (
	"bytes"
	"context"
	"io"
	"regexp"

	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/internal/seek"
)

const (
	// quickSteps is the number of instructions times bytes up to which a line is matched without checking the context:
	// half a second at most.
	quickSteps = 1 << 26
	// lookEvery is the number of instructions times bytes between two checks of the context: some milliseconds.
	lookEvery = 1 << 20
)

// A matcher is a compiled pattern. The time of a match is proportional to the length of the line times the size of the
// pattern, which may be hours for a large pattern and a line of maxLine bytes: so a match stops when its context ends.
type matcher struct {
	re           *regexp.Regexp
	instructions int    // of the compiled pattern
	literal      []byte // what the pattern matches if it is only a text, which package regexp may take long to find
}

// match reports whether the pattern matches in the line. It returns false if the context ends first.
func (m *matcher) match(ctx context.Context, line []byte) bool {
	if m.literal != nil {
		at, _, err := seek.Seek(ctx, line, m.literal, 1)
		return at >= 0 && err == nil
	}
	if len(line) <= quickSteps/m.instructions {
		return m.re.Match(line)
	}
	text := &interruptible{Reader: bytes.NewReader(line), ctx: ctx, pace: lookEvery / m.instructions}
	return m.re.MatchReader(text) && tools.Interrupted(ctx) == nil
}

// interruptible reads a text, and returns end of file when its context ends.
type interruptible struct {
	*bytes.Reader
	ctx  context.Context //nolint:containedctx // it is read in one call
	pace int             // characters between two checks of the context
	read int             // characters since the last check
}

// ReadRune implements [io.RuneReader].
func (r *interruptible) ReadRune() (rune, int, error) {
	if r.read++; r.read > r.pace {
		if r.read = 0; r.ctx.Err() != nil {
			return 0, 0, io.EOF
		}
	}
	return r.Reader.ReadRune()
}
