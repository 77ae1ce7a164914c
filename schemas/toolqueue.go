package schemas

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
)

// queueSeparator separates the members of a queue's name. No member contains it, so no two queues have the same name.
// Consumers, subjects and the keys of buckets may contain it.
const queueSeparator = "="

// ToolQueue selects the workers for a call: those that announce the tool with that version and that workspace. Tool is
// required. An empty version or workspace matches only an empty one.
type ToolQueue struct {
	Tool      string
	Version   string
	Workspace string
}

// Queue returns the queue of the tool's calls.
func (d ToolDefinition) Queue() ToolQueue { return ToolQueue{d.Name, d.Version, d.Workspace} }

// Queue returns the queue of the call.
func (r ToolRequest) Queue() ToolQueue { return ToolQueue{r.ToolName, r.Version, r.Workspace} }

// Name returns the queue's name: <tool>, <tool>=<version>, <tool>=<version>=<workspace> or <tool>==<workspace>. It is
// the token of the tool in subjects, and the name of the consumer that the workers share.
func (q ToolQueue) Name() string {
	switch {
	case q.Workspace != "":
		return q.Tool + queueSeparator + q.Version + queueSeparator + q.Workspace
	case q.Version != "":
		return q.Tool + queueSeparator + q.Version
	}
	return q.Tool
}

// ParseToolQueue parses a queue's name. It refuses names that [ToolQueue.Name] cannot return for legal tokens, with an
// error that wraps [ErrSubject].
func ParseToolQueue(name string) (q ToolQueue, err error) {
	tokens := strings.Split(name, queueSeparator)
	if len(tokens) > 3 {
		return q, fmt.Errorf("%w: %.200q is not <tool>, <tool>=<version> or <tool>=<version>=<workspace>", ErrSubject, name)
	}
	for len(tokens) < 3 {
		tokens = append(tokens, "")
	}
	q = ToolQueue{tokens[0], tokens[1], tokens[2]}
	if err := q.Check(); err != nil {
		return q, err
	}
	if q.Name() != name {
		return q, fmt.Errorf("%w: queue %.200q has an empty end", ErrSubject, name)
	}
	return q, nil
}

// Check returns nil if tool, version and workspace are legal tokens, version and workspace only if they are set;
// otherwise an error that wraps [ErrSubject].
func (q ToolQueue) Check() error {
	errs := []error{CheckToken("tool", q.Tool)}
	if q.Version != "" {
		errs = append(errs, CheckToken("tool version", q.Version))
	}
	if q.Workspace != "" {
		errs = append(errs, CheckToken("workspace", q.Workspace))
	}
	return errors.Join(errs...)
}

// String describes the queue for people: bash, bash version 2, bash version 2 in workspace w.
func (q ToolQueue) String() string {
	text := q.Tool
	if q.Version != "" {
		text += " version " + q.Version
	}
	if q.Workspace != "" {
		text += " in workspace " + q.Workspace
	}
	return text
}

// Compare orders queues by tool, version and workspace, as [cmp.Compare] does.
func (q ToolQueue) Compare(o ToolQueue) int {
	return cmp.Or(cmp.Compare(q.Tool, o.Tool), CompareToolVersions(q.Version, o.Version),
		cmp.Compare(q.Version, o.Version), cmp.Compare(q.Workspace, o.Workspace))
}

// CompareToolVersions orders versions of a tool, as [cmp.Compare] does: no version is the lowest, and numbers in them
// compare as numbers, so that 10 is above 9.
func CompareToolVersions(a, b string) int {
	for a != "" && b != "" {
		x, restA := versionPart(a)
		y, restB := versionPart(b)
		if isDigit(x[0]) && isDigit(y[0]) {
			x, y = strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
			if c := cmp.Compare(len(x), len(y)); c != 0 {
				return c
			}
		}
		if c := cmp.Compare(x, y); c != 0 {
			return c
		}
		a, b = restA, restB
	}
	return cmp.Compare(len(a), len(b))
}

// versionPart splits off the digits at the beginning of a version, or what is before the first digit.
func versionPart(v string) (part, rest string) {
	n := 1
	for n < len(v) && isDigit(v[n]) == isDigit(v[0]) {
		n++
	}
	return v[:n], v[n:]
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
