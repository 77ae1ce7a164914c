package mcp

import (
	"errors"
	"strings"
)

// words splits a command into words as a shell does, with quotes and backslashes but without any expansion. It returns
// an error if there is no word.
func words(text string) ([]string, error) {
	var list []string
	var word strings.Builder
	var quote rune // 0 outside of quotes
	begun, escaped := false, false
	for _, r := range text {
		switch {
		case escaped:
			if quote == '"' && r != '"' && r != '\\' {
				word.WriteRune('\\')
			}
			word.WriteRune(r)
			escaped = false
		case r == '\\' && quote != '\'':
			begun, escaped = true, true
		case r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '"' || r == '\'':
			begun, quote = true, r
		case r == ' ' || r == '\t' || r == '\n':
			if begun {
				list = append(list, word.String())
				word.Reset()
			}
			begun = false
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	if quote != 0 || escaped {
		return nil, errors.New("the command ends within quotes or after a backslash")
	}
	if begun {
		list = append(list, word.String())
	}
	if len(list) == 0 || list[0] == "" {
		return nil, errors.New("there is no command")
	}
	return list, nil
}
