package rehearsal

import (
	"encoding/json"
	"strings"

	"github.com/loopbus/loopbus/schemas"
)

// rule is a form of line that the rehearsal model understands.
type rule struct {
	tool  string
	shape string // the form in help texts
	parse func(rest string) any
}

// rules lists the rules. Except for the first, a line begins with the name of its tool.
var rules = []rule{
	{"bash", "!COMMAND", nil}, // begins with !
	{"read", "read PATH", parsePath},
	{"ls", "ls [PATH]", parseOptionalPath},
	{"write", "write PATH: TEXT", parseWrite},
	{"edit", "edit PATH: OLD => NEW", parseEdit},
	{"grep", "grep PATTERN [PATH]", parsePattern},
	{"find", "find PATTERN [PATH]", parsePattern},
}

// The arguments of the tools, with members in the order of their schemas.
type (
	commandArgs struct {
		Command string `json:"command"`
	}
	pathArgs struct {
		Path string `json:"path,omitempty"`
	}
	writeArgs struct {
		Path    string `json:"path"`
		Content string `json:"content"`
	}
	editArgs struct {
		Path  string        `json:"path"`
		Edits []replacement `json:"edits"`
	}
	replacement struct {
		OldText string `json:"oldText"`
		NewText string `json:"newText"`
	}
	patternArgs struct {
		Pattern string `json:"pattern"`
		Path    string `json:"path,omitempty"`
	}
)

// callWord is the first word of a line that calls any tool, with its arguments as JSON.
const callWord = "call"

// callRule returns the rule of a line that calls this tool with JSON.
func callRule(tool string) rule { return rule{tool: tool, shape: callWord + " " + tool + " {JSON}"} }

// parse returns the calls that the lines of a text request, and the rules of lines whose tool is not offered.
func parse(text string, offered map[string]bool) (calls []schemas.ToolCall, missing []rule) {
	for line := range strings.Lines(text) {
		r, args := parseLine(strings.TrimSpace(line))
		switch {
		case args == nil:
		case !offered[r.tool]:
			missing = append(missing, r)
		default:
			raw, err := schemas.Marshal(args)
			if err != nil {
				continue // cannot happen: structs of strings always encode
			}
			calls = append(calls, schemas.ToolCall{Name: r.tool, Arguments: json.RawMessage(raw)})
		}
	}
	return calls, missing
}

// parseLine returns the rule of a line and its arguments, which are nil if no rule fits.
func parseLine(line string) (rule, any) {
	if command, ok := strings.CutPrefix(line, "!"); ok {
		if command = strings.TrimSpace(command); command == "" {
			return rule{}, nil
		}
		return rules[0], commandArgs{Command: command}
	}
	word, rest, _ := strings.Cut(line, " ")
	if word == callWord {
		return parseCall(rest)
	}
	for _, r := range rules[1:] {
		if r.tool == word {
			return r, r.parse(strings.TrimSpace(rest))
		}
	}
	return rule{}, nil
}

// parseCall parses the name of a tool and a JSON object. Anything else is not a call, such as the sentence "call me".
func parseCall(rest string) (rule, any) {
	tool, args, _ := strings.Cut(strings.TrimSpace(rest), " ")
	args = strings.TrimSpace(args)
	if schemas.CheckToken("tool", tool) != nil || !strings.HasPrefix(args, "{") || !json.Valid([]byte(args)) {
		return rule{}, nil
	}
	return callRule(tool), json.RawMessage(args)
}

func parsePath(rest string) any {
	if rest == "" {
		return nil
	}
	return pathArgs{Path: rest}
}

func parseOptionalPath(rest string) any { return pathArgs{Path: rest} }

func parseWrite(rest string) any {
	path, text, ok := strings.Cut(rest, ":")
	if path = strings.TrimSpace(path); !ok || path == "" {
		return nil
	}
	return writeArgs{Path: path, Content: unescape(strings.TrimPrefix(text, " "))}
}

func parseEdit(rest string) any {
	path, change, _ := strings.Cut(rest, ":")
	old, replaced, ok := strings.Cut(change, "=>")
	path, old = strings.TrimSpace(path), strings.TrimSpace(old)
	if !ok || path == "" || old == "" {
		return nil
	}
	return editArgs{Path: path, Edits: []replacement{{unescape(old), unescape(strings.TrimSpace(replaced))}}}
}

func parsePattern(rest string) any {
	pattern, path, _ := strings.Cut(rest, " ")
	if pattern == "" {
		return nil
	}
	return patternArgs{Pattern: pattern, Path: strings.TrimSpace(path)}
}

// unescape replaces \n by a line break, which a line cannot contain.
func unescape(s string) string { return strings.ReplaceAll(s, `\n`, "\n") }
