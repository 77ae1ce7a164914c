package schemas

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxCommandID is the largest length of a command's id in characters.
const MaxCommandID = 128

// CheckCommandID returns nil if a command may have the id: 1 to [MaxCommandID] characters for which [unicode.IsPrint]
// is true, not only blanks. Otherwise it returns an error that does not quote the id.
func CheckCommandID(id string) error {
	if strings.TrimSpace(id) == "" || utf8.RuneCountInString(id) > MaxCommandID || !utf8.ValidString(id) ||
		strings.ContainsFunc(id, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fmt.Errorf("the id is not 1 to %d printable characters", MaxCommandID)
	}
	return nil
}

// ReservedCommandIDs returns the prefixes of the ids that the service gives to commands. A client that took one would
// have a later command of the service, or of another client, taken for one that is known: such ids are refused.
func ReservedCommandIDs() []string {
	return []string{"cmd-", "timer-", "result/", "given-up/", "subagent/"}
}

// IsReservedCommandID reports whether an id has a prefix of [ReservedCommandIDs].
func IsReservedCommandID(id string) bool {
	return slices.ContainsFunc(ReservedCommandIDs(), func(prefix string) bool { return strings.HasPrefix(id, prefix) })
}

// MaxCommandBytes is the largest size of a command's payload; a session rejects a larger one as too_large.
const MaxCommandBytes = 512 << 10

// MaxText is the largest length of an input's text in characters.
const MaxText = 1 << 20

// IsPlainText reports whether a command's bare payload is plain text ([PlainText]) and not JSON ([ParseCommand]). JSON
// begins with { after white space. An empty payload counts as JSON.
func IsPlainText(payload []byte) bool {
	body := bytes.TrimLeft(payload, " \t\r\n")
	return len(body) > 0 && body[0] != '{'
}

// ParseCommand validates and decodes the bare JSON of a command. It returns the id that the client chose, "" if there
// is none. An empty payload counts as an empty object, which is valid for kinds without required members (abort,
// continue, clear_queue, set_modes). The error is a [*ValidationError] or, for an unknown kind, an [*UnknownTypeError];
// the other results are then zero.
func ParseCommand(kind CommandKind, payload []byte) (id string, data CommandData, err error) {
	if !KnownCommand(kind) {
		return "", nil, &UnknownTypeError{What: "command", Type: string(kind)}
	}
	if len(bytes.TrimSpace(payload)) == 0 {
		payload = []byte("{}")
	}
	if kind == CommandToolResult {
		if id, result, ok := canonicalResult(payload); ok {
			return id, result, nil
		}
	}
	what := "command " + string(kind)
	v, err := validated(what, SchemaName{"commands", string(kind)}, payload)
	if err != nil {
		return "", nil, err
	}
	if object, ok := v.(map[string]any); ok { // of which nothing else is needed
		id, _ = object["id"].(string)
	}
	data, err = DecodeCommandData(kind, payload)
	if err != nil {
		return "", nil, &ValidationError{What: what, Problems: []string{decodeProblem(err)}}
	}
	return id, data, nil
}

// PlainText makes a prompt, steer or follow_up of plain text, which it keeps unchanged. Text that is blank, too long or
// not UTF-8, and any other kind, give a [*ValidationError]; an unknown kind gives an [*UnknownTypeError].
func PlainText(kind CommandKind, payload []byte) (CommandData, error) {
	if !KnownCommand(kind) {
		return nil, &UnknownTypeError{What: "command", Type: string(kind)}
	}
	in := Input{Text: string(payload)}
	var problem string
	switch {
	case !utf8.ValidString(in.Text):
		problem = "not valid UTF-8"
	case strings.TrimSpace(in.Text) == "":
		problem = "blank text"
	case utf8.RuneCountInString(in.Text) > MaxText:
		problem = "text too long"
	}
	var data CommandData
	switch kind {
	case CommandPrompt:
		data = &Prompt{Input: in}
	case CommandSteer:
		data = &Steer{Input: in}
	case CommandFollowUp:
		data = &FollowUp{Input: in}
	default:
		problem = "plain text, where only JSON will do"
	}
	if problem != "" {
		return nil, &ValidationError{What: "command " + string(kind), Problems: []string{"payload: " + problem}}
	}
	return data, nil
}

// decodeProblem describes an error of the decoder after the schema has passed, such as 1.0 for an integer.
func decodeProblem(err error) string {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field != "" {
		_, member, _ := cutLast(wrong.Field, ".") // what is before it is not the whole path
		return "payload: " + member + " cannot be read as " + wrong.Type.String()
	}
	return "payload: cannot be decoded"
}
