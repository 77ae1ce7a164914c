package toolargs

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Schema is a compiled JSON Schema of a tool's parameters. It is immutable.
type Schema struct {
	root     *node
	coercion *coercion // nil: nothing to coerce
}

// Compile compiles the parameters of a tool. Empty parameters stand for any object. The schema keeps no reference to
// parameters. An error says what cannot be compiled, for people and models to read.
func Compile(parameters json.RawMessage) (*Schema, error) {
	if len(parameters) == 0 {
		parameters = json.RawMessage(`{"type":"object"}`)
	}
	doc, err := parseJSON(parameters)
	if err != nil {
		return nil, fmt.Errorf("tool parameters are not JSON: %w", err)
	}
	if !isSchema(&doc) {
		return nil, errors.New("tool parameters are not a JSON Schema: neither an object nor a boolean")
	}
	c := newCompiler(&doc)
	s := &Schema{root: c.node(&doc), coercion: c.coercion(&doc)}
	if c.err != nil {
		return nil, fmt.Errorf("tool parameters do not compile: %w", c.err)
	}
	return s, nil
}

// Validate coerces and validates the arguments of a call of the named tool. It returns the arguments to execute the
// tool with: args itself if nothing had to be coerced, else a fresh slice. Empty args stand for {}.
//
// An error is for the model: its text is exactly what pi answers, naming the tool, one line for each violation, and the
// arguments as they came.
func (s *Schema) Validate(toolName string, args json.RawMessage) (json.RawMessage, error) {
	if len(args) == 0 {
		args = json.RawMessage("{}")
	}
	v, err := parseJSON(args)
	if err != nil {
		return nil, fmt.Errorf("Validation failed for tool %q:\n  - root: must be JSON: %w", toolName, err)
	}
	changed := s.coercion != nil && s.coercion.apply(&v)
	var w walker
	if !w.walk(s.root, &v, nil, s.root.scope()) || w.endless {
		return nil, errors.New(s.complaint(toolName, args, &v))
	}
	if !changed {
		return args, nil
	}
	return appendJSON(make([]byte, 0, len(args)+16), &v), nil
}

// complaint walks again, this time to the end and taking notes.
func (s *Schema) complaint(toolName string, args json.RawMessage, coerced *value) string {
	var w walker
	var r report
	w.walk(s.root, coerced, &r, s.root.scope())
	out := make([]byte, 0, 256+2*len(args))
	out = append(out, `Validation failed for tool "`...)
	out = append(out, toolName...)
	out = append(out, "\":\n"...)
	for i, v := range r.violations {
		if i > 0 {
			out = append(out, '\n')
		}
		out = append(out, "  - "...)
		out = append(out, v.path...)
		out = append(out, ": "...)
		out = append(out, v.message...)
	}
	if w.endless {
		out = append(out, "  - root: the schema refers to itself without end"...)
	} else if len(r.violations) == 0 {
		out = append(out, "Unknown validation error"...)
	}
	out = append(out, "\n\nReceived arguments:\n"...)
	if original, err := parseJSON(args); err == nil { // coerced has changed since
		out = appendPretty(out, &original, 0)
	}
	return string(out)
}
