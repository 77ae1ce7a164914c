package schemas

import (
	"cmp"
	"errors"
	"sort"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// maxProblems bounds how many problems a [ValidationError] names.
const maxProblems = 8

// ValidationError says that a payload does not keep to its schema. Problems are at most eight, sorted, each "path:
// message" with a JSON Pointer as path, or "payload" for the whole; they name members and limits, never content.
type ValidationError struct {
	What     string // what was read: "command prompt", "event agent_end", ...
	Problems []string
}

// Error names what was read and every problem.
func (e *ValidationError) Error() string {
	return "schemas: " + e.What + ": " + strings.Join(e.Problems, "; ")
}

// ValidateCommand holds the JSON payload of a command against its schema. It returns nil, a [*ValidationError], or an
// [*UnknownTypeError] for a kind that is none of this package's.
func ValidateCommand(kind CommandKind, payload []byte) error {
	if !KnownCommand(kind) {
		return &UnknownTypeError{What: "command", Type: string(kind)}
	}
	return validate("command "+string(kind), SchemaName{"commands", string(kind)}, payload)
}

// ValidateEvent holds the payload of a durable event against its schema. It returns nil, a [*ValidationError], or an
// [*UnknownTypeError] for a type that no log may hold.
func ValidateEvent(t EventType, payload []byte) error {
	if eventTypes[t] == nil {
		return &UnknownTypeError{What: "event", Type: string(t)}
	}
	return validate("event "+string(t), SchemaName{"events", string(t)}, payload)
}

// ValidateUpdate holds the payload of an update against its schema. It returns nil, a [*ValidationError], or an
// [*UnknownTypeError] for a type that is not live.
func ValidateUpdate(t EventType, payload []byte) error {
	if t != EventMessageUpdate && t != EventToolExecutionUpdate {
		return &UnknownTypeError{What: "update", Type: string(t)}
	}
	return validate("update "+string(t), SchemaName{"updates", string(t)}, payload)
}

// ValidateToolRequest holds the JSON of a [ToolRequest] against its schema. It returns nil or a [*ValidationError].
func ValidateToolRequest(payload []byte) error {
	if _, ok := canonicalRequest(payload); ok {
		return nil
	}
	return validate("tool request", SchemaName{"tools", "tool_request"}, payload)
}

// ValidateToolAnnouncement holds the JSON of a [ToolAnnouncement] against its schema. It returns nil or a
// [*ValidationError].
func ValidateToolAnnouncement(payload []byte) error {
	return validate("tool announcement", SchemaName{"tools", "tool_announcement"}, payload)
}

// ValidateMessage holds the JSON of a [Message] of any role against its schema. It returns nil or a [*ValidationError].
func ValidateMessage(payload []byte) error {
	return validate("message", SchemaName{"messages", "message"}, payload)
}

// ValidateModelRequest holds the JSON of a [ModelRequest] against its schema. It returns nil or a [*ValidationError].
func ValidateModelRequest(payload []byte) error {
	return validate("model request", SchemaName{"models", "model_request"}, payload)
}

// ValidateModelFrame holds the JSON of a [ModelFrame] against its schema. It returns nil or a [*ValidationError].
func ValidateModelFrame(payload []byte) error {
	return validate("model frame", SchemaName{"models", "model_frame"}, payload)
}

func validate(what string, name SchemaName, payload []byte) error {
	_, err := validated(what, name, payload)
	return err
}

// validated returns the decoded payload where it keeps to the schema.
func validated(what string, name SchemaName, payload []byte) (any, error) {
	v, err := decodeStrict(payload)
	if err != nil {
		return nil, &ValidationError{What: what, Problems: []string{"payload: " + err.Error()}}
	}
	if err := compiledSchema(name).Validate(v); err != nil {
		return nil, &ValidationError{What: what, Problems: problems(err)}
	}
	return v, nil
}

// problems lists the leaves of a validation error. The library goes through members in random order, so they are
// sorted before they are cut off.
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
	case "format": // here and below the library quotes the value
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
