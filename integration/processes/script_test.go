//go:build unix

package processes_test

import (
	"encoding/json"
	"fmt"
)

// responses are the replies of the model, in order, in the file format of package scripted.
type responses []any

func (r responses) file() any { return r }

// script maps the text of the last user message to the replies of the model.
type script map[string]responses

func (s script) file() any {
	var all []any
	for match, r := range s {
		all = append(all, object{"match": "^" + match + "$", "responses": r})
	}
	return object{"scripts": all}
}

func encoded(file any) []byte {
	raw, err := json.Marshal(file)
	if err != nil {
		panic(err)
	}
	return raw
}

type object = map[string]any

func text(s string) any { return object{"text": s} }

// calls returns a reply with calls of tools.
func calls(all ...any) any { return object{"toolCalls": all} }

func bash(command string) any {
	return object{"name": "bash", "arguments": object{"command": command}}
}

func write(path, content string) any {
	return object{"name": "write", "arguments": object{"path": path, "content": content}}
}

func read(path string) any { return object{"name": "read", "arguments": object{"path": path}} }

// stuck is a reply that starts and then streams longer than any test lasts.
var stuck = slow(600_000)

// slow returns a reply that starts, pauses, and then has its text.
func slow(ms int) any { return slowly(ms, object{"type": "text", "text": "slow"}) }

// slowCall returns a reply that starts, pauses, and then calls bash.
func slowCall(ms int, command string) any {
	call := object{"type": "toolCall", "id": "call", "name": "bash", "arguments": object{"command": command}}
	return slowly(ms, object{"type": "text", "text": "slow"}, call)
}

func slowly(ms int, content ...any) any {
	return object{
		"events": []any{
			object{"type": "start"}, object{"type": "text_start"}, object{"type": "text_delta", "delta": "sl"},
			object{"delayMs": ms}, object{"type": "text_delta", "delta": "ow"}, object{"type": "done"},
		},
		"message": object{"content": content},
	}
}

// note returns a command that appends a line to the file count, so that the test can count its executions.
func note(line string) string { return fmt.Sprintf("echo %s >> count", line) }

// held returns a note that then waits for the file go.
func held(line string) string { return note(line) + "; until [ -e go ]; do sleep 0.02; done" }
