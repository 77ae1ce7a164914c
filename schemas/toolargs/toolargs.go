// Package toolargs validates the arguments of a tool call by the tool's JSON Schema and bends what a model got
// slightly wrong, as pi does: "5" becomes 5 where an integer is wanted, null becomes "", and so on.
//
// What it says is part of the contract: a model reads the errors, and sessions recorded by pi are compared with ours
// word by word. So are the order of the lines, their paths, and the quoted arguments, which look as JavaScript's
// JSON.stringify(arguments, null, 2) would print them. A general validator finds the same violations but words,
// orders and groups them in its own way; the walk over schema and value is therefore this package's own.
//
// # Rules
//
//   - Scalars are coerced along type, properties, additionalProperties, items, allOf, anyOf and oneOf, nowhere else.
//     Nothing is wrapped in arrays, parsed out of text or filled in from default.
//   - In anyOf and oneOf the first member wins that fits after coercion. A member is judged on its own: a $ref in it
//     that points outside finds nothing. A list of types is only tried when the value is of none of them.
//   - A keyword whose value has the wrong type is ignored, as is an unknown keyword or type name. A pattern that
//     cannot be compiled makes the whole schema an error.
//   - Patterns are JavaScript's, as with its flag u. Go's regexp has those that it can take, regexp2 those with
//     lookaround, backreferences or more than a thousand repetitions.
//   - Violations are reported in a fixed order of keywords, children before the error of their parent, and at most
//     eight of them.
//   - Strings are measured in Unicode code points, numbers are IEEE doubles.
//
// # Guarantees
//
// Validated arguments keep their members, the members' order and the literals of numbers, except what coercion had to
// change, and except that of a name that an object has twice the last value alone is kept, which is what was checked:
// other readers might take the first. Other arguments that needed no coercion are returned as the very same bytes. What
// Validate returns passes Validate again unchanged, unless a union is involved: by its rule [integer, boolean] makes
// "true" true, and true 1. A [Schema] is immutable and safe for concurrent use.
//
// Arguments come from a model, and schemas from whoever may announce a tool: neither makes a process panic or keeps it
// busy. Compiling refuses a schema of more than 128 KiB, nested deeper than 200, whose nested unions come to more than
// a million values, with a pattern of more than 4 KiB, or whose patterns come to more than 65,536 instructions. A
// validation ends after 10 million steps, which take about half a second, after a second of patterns (a pattern of
// regexp2 may be another 200 ms late), or when its context ends. A part of a schema that several references name is
// checked against a value once. Arguments are nested no deeper than 1000, and an error quotes no more than 256 KiB of
// them.
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
	patternTime time.Duration // for the patterns of one validation
}

// Compile compiles the parameters of a tool. Empty parameters stand for any object. The schema keeps no reference to
// parameters. An error says what cannot be compiled, for people and models to read.
func Compile(parameters json.RawMessage) (*Schema, error) {
	return compileWithin(parameters, maxPatternTime)
}

// compileWithin is Compile of a schema whose patterns may try for so long in one validation.
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
		s := &Schema{root: c.node(&doc), coercion: c.coercion(&doc), patternTime: patterns}
		if c.err == nil {
			return s, nil
		}
	}
	return nil, fmt.Errorf("tool parameters do not compile: %w", c.err)
}

// Check reports why a tool with these parameters must not be announced: they do not compile, or even to hold {} against
// them takes too much.
func Check(parameters json.RawMessage) error {
	s, err := Compile(parameters)
	if err != nil {
		return err
	}
	b, none := newBudget(nil, s.patternTime), value{kind: kindObject}
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

// textEndless is the violation where a schema refers to itself without consuming any of the value.
const textEndless = "the schema refers to itself without end"

// Validate coerces and validates the arguments of a call of the named tool. It returns the arguments to execute the
// tool with: args itself if nothing had to be coerced or settled, else a fresh slice. Empty args stand for {}.
//
// An error is for the model: its text is exactly what pi answers, naming the tool, one line for each violation, and the
// arguments as they came. Of the same kind is the error where the check takes too much work or time: the package's
// documentation says how much it may. If ctx ends a check that takes longer than most, the error wraps its cause
// instead, and says nothing about the arguments.
func (s *Schema) Validate(ctx context.Context, toolName string, args json.RawMessage) (json.RawMessage, error) {
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	v, repeated, err := parseArguments(args)
	if err != nil {
		lines := []violation{{"root", "must be JSON: " + err.Error()}}
		return nil, errors.New(errorText(toolName, lines, args))
	}
	b := newBudget(ctx.Done(), s.patternTime)
	changed := s.coercion != nil && s.coercion.apply(b, &v)
	fits := b.fits(s.root, &v)
	var violations []violation
	if !fits {
		violations = s.violations(b, &v)
	}
	switch {
	case b.err == errEnded:
		return nil, fmt.Errorf("check the arguments of tool %q: %w", toolName, context.Cause(ctx))
	case b.err != nil:
		violations = []violation{{"root", b.err.Error()}}
	case fits && (changed || repeated):
		return appendJSON(make([]byte, 0, len(args)+16), &v), nil
	case fits:
		return args, nil
	}
	return nil, errors.New(errorText(toolName, violations, pretty(args)))
}

// violations walks again, this time to the end, and records the violations.
func (s *Schema) violations(b *budget, v *value) []violation {
	w := walker{budget: b}
	var r report
	w.walk(s.root, v, &r, s.root.scope())
	switch {
	case w.endless:
		return []violation{{"root", textEndless}}
	case len(r.violations) == 0: // what is reported and what is checked agree, as far as is known
		return []violation{{"root", "Unknown validation error"}}
	}
	return r.violations
}

// errorText is the text of an error.
func errorText(toolName string, lines []violation, received []byte) string {
	var b strings.Builder
	b.WriteString(`Validation failed for tool "` + toolName + "\":\n")
	for _, line := range lines {
		b.WriteString("  - " + line.path + ": " + line.message + "\n")
	}
	b.WriteString("\nReceived arguments:\n")
	if len(received) > maxReceived {
		b.WriteString(strings.ToValidUTF8(string(received[:maxReceived]), "") + " [cut]")
	} else {
		b.Write(received)
	}
	return b.String()
}

// maxReceived is how many bytes of the arguments an error quotes. Printed in lines, what is deeply nested may be a
// thousand times as long as it came.
const maxReceived = 256 << 10

// pretty prints arguments that are known to be JSON as they came, before coercion, or somewhat more than will be
// quoted.
func pretty(args json.RawMessage) []byte {
	v, err := parseJSON(args)
	if err != nil {
		return args
	}
	return appendPretty(make([]byte, 0, min(2*len(args), 2*maxReceived)), &v, 0)
}
