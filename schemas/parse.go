package schemas

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxCommandID is the greatest length of a command's id in characters.
const MaxCommandID = 128

// CheckCommandID returns nil if a command may have the id: 1 to [MaxCommandID] characters that [unicode.IsPrint] holds
// for, not only blanks. Otherwise the error says so and does not quote the id.
func CheckCommandID(id string) error {
	if strings.TrimSpace(id) == "" || utf8.RuneCountInString(id) > MaxCommandID || !utf8.ValidString(id) ||
		strings.ContainsFunc(id, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fmt.Errorf("the id is not 1 to %d printable characters", MaxCommandID)
	}
	return nil
}

// MaxText is the greatest length of an input's text in characters.
const MaxText = 1 << 20

// IsPlainText reports whether a command's bare payload is plain text ([PlainText]) and not JSON ([ParseCommand]): JSON
// is what begins with { after white space. An empty payload counts as JSON.
func IsPlainText(payload []byte) bool {
	body := bytes.TrimLeft(payload, " \t\r\n")
	return len(body) > 0 && body[0] != '{'
}

// ParseCommand validates and decodes the bare JSON of a command, and returns the client's id of it, "" if it gives
// none. An empty payload is an empty object, which does for kinds without required members (abort, continue,
// clear_queue, set_modes). The error is a [*ValidationError] or, for an unknown kind, an [*UnknownTypeError];
// everything else is then zero.
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
	data, err = DecodeCommandData(kind, payload)
	if err != nil {
		return "", nil, &ValidationError{What: what, Problems: []string{decodeProblem(err)}}
	}
	if object, ok := v.(map[string]any); ok {
		id, _ = object["id"].(string)
	}
	return id, data, nil
}

// PlainText makes the command of a plain text: a prompt, steer or follow_up that says it. The text is kept as it is.
// Text that is blank, too long or not UTF-8, and any other kind, give a [*ValidationError]; an unknown kind an
// [*UnknownTypeError].
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

// decodeProblem says what the decoder did not like after the schema had passed, such as 1.0 for an integer.
func decodeProblem(err error) string {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) && wrong.Field != "" {
		_, member, _ := cutLast(wrong.Field, ".") // what is before it is not the whole path
		return "payload: " + member + " cannot be read as " + wrong.Type.String()
	}
	return "payload: cannot be decoded"
}
