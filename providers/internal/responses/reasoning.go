package responses

import (
	"encoding/json"
	"io"
	"strings"
)

// isReasoning reports whether a signature is a reasoning item, which goes into the next request as it is. The signature
// may come from a model behind the bus or from a session file. Any other item would be the words of a developer or of a
// user, or a file of the account. JSON that names its type twice means different things to different readers.
func isReasoning(signature string) bool {
	in := json.NewDecoder(strings.NewReader(signature))
	if begin, err := in.Token(); err != nil || begin != json.Delim('{') {
		return false
	}
	var types []string
	for in.More() {
		name, err := in.Token()
		if err != nil {
			return false
		}
		var value json.RawMessage
		if in.Decode(&value) != nil {
			return false
		}
		if name == "type" {
			types = append(types, string(value))
		}
	}
	if end, err := in.Token(); err != nil || end != json.Delim('}') {
		return false
	}
	if _, err := in.Token(); err != io.EOF {
		return false
	}
	return len(types) == 1 && types[0] == `"reasoning"`
}
