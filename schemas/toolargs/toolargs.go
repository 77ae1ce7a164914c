// Package toolargs validates the arguments of a tool call by the tool's JSON Schema, and coerces values that a model
// got slightly wrong, as pi does: "5" becomes 5 if an integer is expected, null becomes "", and so on.
//
// The texts of its errors are part of the contract: models read them, and sessions recorded by pi are compared with
// loopbus word by word. So are the order of the lines, their paths, and the quoted arguments, which have the form of
// JavaScript's JSON.stringify(arguments, null, 2). A general validator finds the same violations, but words, orders and
// groups them in its own way. Therefore this package walks over schema and value itself.
//
// # Rules
//
//   - Scalars are coerced along type, properties, additionalProperties, items, allOf, anyOf and oneOf, nowhere else.
//     No value is wrapped in an array, parsed out of text or filled in from default.
//   - In anyOf and oneOf the first member that matches after coercion wins. A member is a document of its own: a $ref
//     in it to the outside finds nothing. A list of types is only tried if the value has none of them.
//   - A keyword whose value has the wrong type is ignored, as is an unknown keyword or type name. A pattern that
//     cannot be compiled makes the whole schema an error.
//   - Patterns are JavaScript's, as with its flag u. Go's regexp executes those that it accepts, regexp2 those with
//     lookaround, backreferences or more than a thousand repetitions.
//   - Violations are reported in a fixed order of keywords, children before the error of their parent, and at most
//     eight of them.
//   - Strings are measured in Unicode code points, numbers are IEEE doubles.
//
// # Guarantees
//
// Validated arguments keep their members, the order of the members and the literals of numbers, with two exceptions:
// values that were coerced, and repeated names. Of a repeated name only the last value is kept, which is the one that
// was validated: another reader might use the first. Arguments without these exceptions are returned as the same bytes.
// The result of Validate passes Validate again unchanged, unless a union is involved: by its rule [integer, boolean]
// makes "true" true, and true 1. A [Schema] is immutable and safe for concurrent use.
//
// Arguments come from models, and schemas from any client that may announce a tool. Neither can make a process panic or
// keep it busy. Compile refuses a schema of more than 128 KiB, nested deeper than 200, whose nested unions add up to
// more than 100,000 values, with a pattern of more than 4 KiB, or whose patterns add up to more than 65,536
// instructions or 8 MiB. A validation ends after 10 million steps, which take about half a second, after a second of
// patterns (a pattern of regexp2 may end another 200 ms later), or when its context ends. A part of a schema that
// several references name is checked against a value once. Arguments may be nested 1000 levels deep. An error quotes at
// most 256 KiB of them, or sixteen times what came and 4 KiB, and has 4 KiB of a path and 16 KiB of a message in each
// line. Arguments have at most 262,144 values, and unions in unions at most eight copies of them at once. What is
// remembered of visited values takes at most as much as the arguments themselves, and half a megabyte. All checks of a
// process take at most some 230 MiB at once. Those of large arguments wait for each other, and so do those with
// patterns that are large or that go back; the newest does not wait for all of a burst. Besides, two matches of regexp2
// at once may remember 32 MiB each to go back, as JavaScript's engine V8 may 64 MB, and others 32 KiB; a match
// that would need more is an error.
package toolargs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Schema is a compiled JSON Schema of a tool's parameters. It is immutable.
type Schema struct {
	root        *node
	coercion    *coercion     // nil: nothing to coerce
	steps       int           // limit of one validation
	patternTime time.Duration // for the patterns of one validation
	cost        int           // see Cost
	remembers   bool          // see limits
	slow        bool          // see limits
}

// costBytes is what a unit of Cost stands for.
const costBytes = 50

// Cost returns about how much memory the schema takes, in units of fifty bytes.
func (s *Schema) Cost() int { return s.cost }

// Compile compiles the parameters of a tool. Empty parameters accept any object. The schema keeps no reference to
// parameters. The error, for people and models, names what cannot be compiled.
func Compile(parameters json.RawMessage) (*Schema, error) {
	return compileWithin(parameters, maxPatternTime)
}

// compileWithin is Compile with a limit for the time of all patterns of one validation.
func compileWithin(parameters json.RawMessage, patterns time.Duration) (*Schema, error) {
	if len(parameters) == 0 {
		parameters = json.RawMessage(`{"type":"object"}`)
	}
	if len(parameters) > maxParameters {
		return nil, fmt.Errorf("tool parameters have %d bytes, more than %d", len(parameters), maxParameters)
	}
	doc, err := parseNested(parameters, maxSchemaNesting)
	if err != nil {
		return nil, fmt.Errorf("tool parameters are not JSON: %w", err)
	}
	if !isSchema(&doc) {
		return nil, errors.New("tool parameters are not a JSON Schema: neither an object nor a boolean")
	}
	c := newCompiler(&doc, newLimits(patterns))
	if c.err == nil {
		s := &Schema{root: c.node(&doc), coercion: c.coercion(&doc), steps: maxSteps, patternTime: patterns}
		if c.err == nil {
			s.remembers, s.slow = c.remembers, c.slow
			s.cost = maxSchemaValues - c.values + (maxPatternMemory-c.memory+len(parameters))/costBytes
			return s, nil
		}
	}
	return nil, fmt.Errorf("tool parameters do not compile: %w", c.err)
}

// Check returns an error if a tool with these parameters must not be announced: they do not compile, or even validating
// {} takes more than 100,000 steps.
func Check(parameters json.RawMessage) error {
	s, err := Compile(parameters)
	if err != nil {
		return err
	}
	b, none := newBudget(nil, checkSteps, s.patternTime), value{kind: kindObject}
	b.memory = s.memoryFor(0)
	if s.coercion != nil {
		s.coercion.apply(b, &none)
	}
	w := walker{budget: b}
	w.walk(s.root, &none, nil, s.root.scope())
	switch {
	case b.err != nil:
		return fmt.Errorf("tool parameters cannot be used: %w", b.err)
	case w.endless:
		return errors.New("tool parameters cannot be used: " + textEndless)
	}
	return nil
}

// textEndless is the violation of a schema that refers to itself without consuming any of the value.
const textEndless = "the schema refers to itself without end"

// Validate coerces and validates the arguments of a call of the named tool. It returns the arguments to execute the
// tool with: args itself if nothing had to be coerced and no name was repeated, else a fresh slice. Empty args count as
// {}.
//
// An error is for the model. Its text is exactly that of pi: it names the tool, has one line for each violation, and
// quotes the arguments as they came. A validation that exceeds the budget of work or time, which the package's
// documentation states, is such an error too. If ctx ends while Validate waits for others, or during a validation that
// takes longer than most, the error wraps the cause of ctx instead, and says nothing about the arguments.
func (s *Schema) Validate(ctx context.Context, toolName string, args json.RawMessage) (json.RawMessage, error) {
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	room := roomOf(args)
	leave, err := enter(ctx, room, s.memoryFor(room), s.slow)
	if err != nil {
		return nil, ended(toolName, err)
	}
	defer leave()
	v, repeated, err := parseArguments(args)
	if err != nil {
		lines := []violation{{"root", "must be JSON: " + err.Error()}}
		return nil, errors.New(errorText(toolName, lines, args, maxReceived))
	}
	b := newBudget(ctx.Done(), s.steps, s.patternTime)
	b.copies, b.memory = maxCopies*min(room/valueBytes, maxValues), s.memoryFor(room)
	changed := s.coercion != nil && s.coercion.apply(b, &v)
	fits := b.fits(s.root, &v)
	var violations []violation
	if !fits {
		violations = s.violations(b, &v)
	}
	switch {
	case b.err == errEnded:
		return nil, ended(toolName, context.Cause(ctx))
	case b.err != nil:
		violations = []violation{{"root", b.err.Error()}}
	case fits && (changed || repeated):
		return appendJSON(make([]byte, 0, len(args)+16), &v), nil
	case fits:
		return args, nil
	}
	return nil, errors.New(errorText(toolName, violations, pretty(args), min(maxReceived, maxGrowth*len(args)+4<<10)))
}

func ended(toolName string, cause error) error {
	return fmt.Errorf("check the arguments of tool %q: %w", toolName, cause)
}

// violations walks again, this time to the end, and records the violations.
func (s *Schema) violations(b *budget, v *value) []violation {
	w := walker{budget: b}
	var r report
	w.walk(s.root, v, &r, s.root.scope())
	switch {
	case w.endless:
		return []violation{{"root", textEndless}}
	case len(r.violations) == 0: // not expected: both walks run the same checks
		return []violation{{"root", "Unknown validation error"}}
	}
	return r.violations
}

// errorText returns the text of an error, which quotes the arguments up to a limit.
func errorText(toolName string, lines []violation, received []byte, limit int) string {
	var b strings.Builder
	b.WriteString(`Validation failed for tool "` + toolName + "\":\n")
	for _, line := range lines {
		b.WriteString("  - " + line.path + ": " + line.message + "\n")
	}
	b.WriteString("\nReceived arguments:\n")
	if len(received) > limit {
		b.WriteString(strings.ToValidUTF8(string(received[:limit]), "") + " [cut]")
	} else {
		b.Write(received)
	}
	return b.String()
}

// maxReceived is how many bytes of the arguments an error quotes. Printed in lines, deeply nested arguments may be a
// thousand times as long as they came.
const maxReceived = 256 << 10

// maxGrowth is how many times as long as the arguments the quote may be: who sends many calls with small arguments must
// not have each answered with a large error.
const maxGrowth = 16

// pretty prints arguments, which are known to be JSON, as they came, before coercion. It may stop after more than an
// error quotes.
func pretty(args json.RawMessage) []byte {
	v, err := parseJSON(args)
	if err != nil {
		return args
	}
	return appendPretty(make([]byte, 0, min(2*len(args), 2*maxReceived)), &v, 0)
}
