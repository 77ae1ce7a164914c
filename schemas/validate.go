package schemas

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"github.com/loopbus/loopbus/schemas/turns"
)

// maxProblems bounds how many problems a [ValidationError] names.
const maxProblems = 8

// Limits of payloads that a schema validates. The library visits every value and records each mistake, so that a list
// of mistakes would take three hundred times its size. Events may be larger, because runners make them.
const (
	maxValues = 1 << 19 // JSON values and lists; more than fit into a NATS message
	maxItems  = 10_000  // items of lists that the schema describes: messages, blocks, images, ...
)

// ValidationError is the error of a payload that does not match its schema. Problems are at most eight, sorted, each
// "path: message" with a JSON Pointer as path, or "payload" for the whole. They name members and limits, never content.
type ValidationError struct {
	What     string // what was validated: "command prompt", "event agent_end", ...
	Problems []string
}

// Error names what was read and every problem.
func (e *ValidationError) Error() string {
	return "schemas: " + e.What + ": " + strings.Join(e.Problems, "; ")
}

// ValidateCommand validates the JSON payload of a command by its schema. It returns nil, a [*ValidationError], or an
// [*UnknownTypeError] for an unknown kind.
func ValidateCommand(kind CommandKind, payload []byte) error {
	if !KnownCommand(kind) {
		return &UnknownTypeError{What: "command", Type: string(kind)}
	}
	return validate("command "+string(kind), SchemaName{"commands", string(kind)}, payload)
}

// ValidateEvent validates the payload of a durable event by its schema. It returns nil, a [*ValidationError], or an
// [*UnknownTypeError] for a type that a log cannot have.
func ValidateEvent(t EventType, payload []byte) error {
	if eventTypes[t] == nil {
		return &UnknownTypeError{What: "event", Type: string(t)}
	}
	return validate("event "+string(t), SchemaName{"events", string(t)}, payload)
}

// ValidateUpdate validates the payload of an update by its schema. It returns nil, a [*ValidationError], or an
// [*UnknownTypeError] for a type that is not live.
func ValidateUpdate(t EventType, payload []byte) error {
	if t != EventMessageUpdate && t != EventToolExecutionUpdate {
		return &UnknownTypeError{What: "update", Type: string(t)}
	}
	return validate("update "+string(t), SchemaName{"updates", string(t)}, payload)
}

// ValidateToolRequest validates the JSON of a [ToolRequest] by its schema. It returns nil or a [*ValidationError].
func ValidateToolRequest(payload []byte) error {
	if _, ok := canonicalRequest(payload); ok {
		return nil
	}
	return validate("tool request", SchemaName{"tools", "tool_request"}, payload)
}

// ValidateToolAnnouncement validates the JSON of a [ToolAnnouncement] by its schema. It returns nil or a
// [*ValidationError].
func ValidateToolAnnouncement(payload []byte) error {
	return validate("tool announcement", SchemaName{"tools", "tool_announcement"}, payload)
}

// ValidateMessage validates the JSON of a [Message] of any role by its schema. It returns nil or a [*ValidationError].
func ValidateMessage(payload []byte) error {
	return validate("message", SchemaName{"messages", "message"}, payload)
}

// ValidateModelRequest validates the JSON of a [ModelRequest] by its schema. It returns nil or a [*ValidationError].
func ValidateModelRequest(payload []byte) error {
	return validate("model request", SchemaName{"models", "model_request"}, payload)
}

// ValidateModelFrame validates the JSON of a [ModelFrame] by its schema. It returns nil or a [*ValidationError].
func ValidateModelFrame(payload []byte) error {
	return validate("model frame", SchemaName{"models", "model_frame"}, payload)
}

func validate(what string, name SchemaName, payload []byte) error {
	_, err := validated(what, name, payload)
	return err
}

// validated returns the decoded payload if it matches its schema.
func validated(what string, name SchemaName, payload []byte) (any, error) {
	bounded := name.Area != "events"
	if bounded && len(payload) > maxValues && CountValues(payload) > maxValues {
		return nil, &ValidationError{What: what, Problems: []string{fmt.Sprintf("payload: more than %d values", maxValues)}}
	}
	defer enter(payload)()
	schema := compiledSchema(name)
	var v any
	var err error
	if bounded {
		v, err = decodeStrict(payload)
	} else {
		v, err = decodeStored(payload, schema)
	}
	if err != nil {
		return nil, &ValidationError{What: what, Problems: []string{"payload: " + err.Error()}}
	}
	if bounded {
		if list := tooMany(schema, v); len(list) > 0 {
			return nil, &ValidationError{What: what, Problems: list}
		}
	}
	if err := schema.Validate(v); err != nil {
		return nil, &ValidationError{What: what, Problems: problems(err)}
	}
	return v, nil
}

const (
	// smallPayload is the size in bytes up to which a payload is validated without waiting.
	smallPayload = 16 << 10
	// maxDecoded limits the memory of the larger payloads that a process validates at once. One may take all of it.
	maxDecoded = 128 << 20
)

// decoded is what the validations of a process share. They only compute, so that none waits long: more at once than
// there are processors are no faster, and clients, workers and models may send hundreds at once.
var decoded = turns.New[struct{}](maxDecoded)

// enter waits until there is memory to decode a payload, and returns a function that gives it back.
func enter(payload []byte) (leave func()) {
	if len(payload) <= smallPayload {
		return func() {}
	}
	leave, _ = decoded.Wait(context.Background(), struct{}{}, len(payload)+CountValues(payload)*ValueBytes)
	return leave // never nil: the context does not end
}

// ValueBytes is about how much memory a decoded value takes in addition to its text, as [CountValues] counts.
const ValueBytes = 256

// CountValues counts the values of a JSON text without decoding it; objects and lists count twice. For a text that is
// not JSON the result means nothing.
func CountValues(payload []byte) (n int) {
	quoted := false
	for i := 0; i < len(payload); i++ {
		switch c := payload[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case !quoted && (c == ',' || c == '[' || c == '{'):
			n++
		}
	}
	return n
}

// CheckValues returns nil, or a failure with the code [FailureTooLarge] if payload has more than most JSON values, as
// [CountValues] counts. It is called before JSON from outside is decoded.
func CheckValues(what string, payload []byte, most int) error {
	if len(payload) <= most || CountValues(payload) <= most {
		return nil
	}
	return NewFailure(FailureTooLarge, fmt.Sprintf("%s has more than %d JSON values", what, most))
}

// MaxReplyValues is how many JSON values an event of a model's reply may have, and how many the arguments of all calls
// of a reply: a list of empty values takes a hundred times its bytes once it is decoded.
const MaxReplyValues = 1 << 17

// tooMany reports which lists of a value are longer than its schema allows, or that the value has too many items in
// all. It looks only at items that the schema describes.
func tooMany(schema *jsonschema.Schema, v any) []string {
	c := &crowd{left: maxItems}
	if !c.take([]described{{schema, true}}, v, "") {
		return []string{fmt.Sprintf("payload: more than %d messages, blocks and other items", maxItems)}
	}
	sort.Strings(c.problems)
	return c.problems[:min(len(c.problems), maxProblems)]
}

// A crowd counts items.
type crowd struct {
	left     int
	problems []string
}

// described is a schema that may describe a value. It is sure if the value must match it.
type described struct {
	*jsonschema.Schema
	sure bool
}

// take counts the items of a value that any of the schemas describes. It returns false if there are too many.
func (c *crowd) take(schemas []described, v any, at string) bool {
	switch v := v.(type) {
	case map[string]any:
		schemas = membersOf(schemas)
		for name, item := range v {
			of := memberOf(schemas, name)
			if len(of) > 0 && !c.take(of, item, at+"/"+name) {
				return false
			}
		}
	case []any:
		schemas = allOf(schemas)
		for _, s := range schemas {
			if s.sure && s.MaxItems >= 0 && len(v) > s.MaxItems {
				c.problems = append(c.problems, fmt.Sprintf("%s: maximum %d items required, but found %d items",
					cmp.Or(at, "payload"), s.MaxItems, len(v)))
				return true
			}
		}
		of := itemsOf(schemas)
		if len(of) == 0 {
			return true
		}
		if c.left -= len(v); c.left < 0 {
			return false
		}
		for i, item := range v {
			if !c.take(of, item, fmt.Sprintf("%s/%d", at, i)) {
				return false
			}
		}
	}
	return true
}

// membersOf returns those of the schemas, and of those that they refer to, that describe members of an object.
func membersOf(schemas []described) (of []described) {
	for _, s := range allOf(schemas) {
		if len(s.Properties) > 0 {
			of = append(of, s)
		}
	}
	return of
}

// memberOf returns the schemas of a member.
func memberOf(schemas []described, name string) (of []described) {
	for _, s := range schemas {
		if inner := s.Properties[name]; inner != nil {
			of = append(of, described{inner, s.sure})
		}
	}
	return of
}

// number reports whether the schema describes a number.
func (d described) number() bool {
	return slices.Contains(d.Types, "number") || slices.Contains(d.Types, "integer")
}

// itemsOf returns the schemas of the items of a list.
func itemsOf(schemas []described) (of []described) {
	for _, s := range allOf(schemas) {
		if s.Items2020 != nil {
			of = append(of, described{s.Items2020, s.sure})
		}
	}
	return of
}

// allOf returns the schemas and those that they refer to.
func allOf(schemas []described) []described {
	add := func(sure bool, more ...*jsonschema.Schema) {
		for _, m := range more {
			if m != nil && !slices.ContainsFunc(schemas, func(d described) bool { return d.Schema == m }) {
				schemas = append(schemas, described{m, sure})
			}
		}
	}
	schemas = slices.Clip(schemas)
	for i := 0; i < len(schemas); i++ {
		s := schemas[i]
		add(s.sure, s.Ref)
		add(s.sure, s.AllOf...)
		add(false, s.AnyOf...)
		add(false, s.OneOf...)
		add(false, s.If, s.Then, s.Else)
	}
	return schemas
}

// problems lists the leaves of a validation error. The library visits members in random order, so they are sorted
// before the list is cut.
func problems(err error) []string {
	var root *jsonschema.ValidationError
	if !errors.As(err, &root) {
		return []string{"payload: " + err.Error()} // a loop in a schema
	}
	seen := make(map[string]bool)
	collectProblems(root, seen)
	list := make([]string, 0, len(seen))
	for p := range seen {
		list = append(list, p)
	}
	sort.Strings(list)
	return list[:min(len(list), maxProblems)]
}

func collectProblems(e *jsonschema.ValidationError, seen map[string]bool) {
	for _, cause := range e.Causes {
		collectProblems(cause, seen)
	}
	if len(e.Causes) == 0 {
		seen[problem(e)] = true
	}
}

func problem(e *jsonschema.ValidationError) string {
	path := cmp.Or(e.InstanceLocation, "payload")
	message := e.Message
	switch keyword := e.KeywordLocation[strings.LastIndexByte(e.KeywordLocation, '/')+1:]; keyword {
	case "format": // here and below: the library quotes the value
		message = "not in the required format"
	case "minimum":
		message = "less than the minimum"
	case "maximum":
		message = "greater than the maximum"
	case "pattern":
		if strings.HasSuffix(message, `'\\S'`) {
			message = "must not be blank"
		}
	}
	return path + ": " + message
}
