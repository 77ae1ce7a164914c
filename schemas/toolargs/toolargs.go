package toolargs

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
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
		lines := []violation{{"root", "must be JSON: " + err.Error()}}
		return nil, errors.New(complaint(toolName, lines, args))
	}
	changed := s.coercion != nil && s.coercion.apply(&v)
	var w walker
	if !w.walk(s.root, &v, nil, s.root.scope()) || w.endless {
		return nil, errors.New(complaint(toolName, s.violations(&v), pretty(args)))
	}
	if !changed {
		return args, nil
	}
	return appendJSON(make([]byte, 0, len(args)+16), &v), nil
}

// violations walks again, this time to the end and taking notes.
func (s *Schema) violations(v *value) []violation {
	var w walker
	var r report
	w.walk(s.root, v, &r, s.root.scope())
	switch {
	case w.endless:
		return []violation{{"root", "the schema refers to itself without end"}}
	case len(r.violations) == 0: // what is reported and what is checked agree, as far as is known
		return []violation{{"root", "Unknown validation error"}}
	}
	return r.violations
}

// complaint is the text of an error.
func complaint(toolName string, lines []violation, received []byte) string {
	var b strings.Builder
	b.WriteString(`Validation failed for tool "` + toolName + "\":\n")
	for _, line := range lines {
		b.WriteString("  - " + line.path + ": " + line.message + "\n")
	}
	b.WriteString("\nReceived arguments:\n")
	b.Write(received)
	return b.String()
}

// pretty prints arguments that are known to be JSON as they came, before coercion.
func pretty(args json.RawMessage) []byte {
	v, err := parseJSON(args)
	if err != nil {
		return args
	}
	return appendPretty(make([]byte, 0, 2*len(args)), &v, 0)
}
