//go:build unix

package processes_test

import (
	"encoding/json"
	"fmt"
)

// responses are what the model says, one after the other, as the files of package scripted have it.
type responses []any

func (r responses) file() any { return r }

// script is what it says by the text of the last user message.
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

// calls is a reply with calls of tools.
func calls(all ...any) any { return object{"toolCalls": all} }

func bash(command string) any {
	return object{"name": "bash", "arguments": object{"command": command}}
}

func write(path, content string) any {
	return object{"name": "write", "arguments": object{"path": path, "content": content}}
}

func read(path string) any { return object{"name": "read", "arguments": object{"path": path}} }

// stuck is a reply that begins and then takes longer than any test.
var stuck = slow(600_000)

// slow is a reply that begins, pauses, and then says what it has to.
func slow(ms int) any { return slowly(ms, object{"type": "text", "text": "slow"}) }

// slowCall is a reply that begins, pauses, and then calls bash.
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

// note is a command that leaves a line in the file count, which says how often it was run.
func note(line string) string { return fmt.Sprintf("echo %s >> count", line) }

// held is a note that then waits for the file go.
func held(line string) string { return note(line) + "; until [ -e go ]; do sleep 0.02; done" }
