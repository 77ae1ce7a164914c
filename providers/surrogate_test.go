package providers_test

import (
	"regexp"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/loopbus/loopbus/providers/internal/wtf8"
	"github.com/loopbus/loopbus/schemas"
)

// Recordings contain unpaired surrogates as escapes, which encoding/json would decode as U+FFFD. They are decoded as
// private characters instead, U+E000 for U+D800 and so on, and converted to surrogates in Go's strings.
const halfToPrivate = 0xE000 - 0xD800

// escapes matches escapes one by one, so that an escaped backslash does not begin another escape.
var escapes = regexp.MustCompile(`\\(?:u[0-9a-fA-F]{4}|[^u])`)

// markHalves replaces the escapes of unpaired surrogates in a JSON text by escapes of private characters.
func markHalves(raw []byte) []byte {
	out := make([]byte, 0, len(raw))
	at := 0
	places := escapes.FindAllIndex(raw, -1)
	for i := 0; i < len(places); i++ {
		from, to := places[i][0], places[i][1]
		unit := unitOf(raw[from:to])
		if !utf16.IsSurrogate(unit) {
			continue
		}
		if i+1 < len(places) && places[i+1][0] == to &&
			utf16.DecodeRune(unit, unitOf(raw[to:places[i+1][1]])) != '\uFFFD' {
			i++
			continue
		}
		out = append(out, raw[at:from]...)
		out = append(out, `\u`...)
		out = strconv.AppendInt(out, int64(unit)+halfToPrivate, 16)
		at = to
	}
	return append(out, raw[at:]...)
}

// unitOf returns the code unit of a \u escape, or 0 for another escape.
func unitOf(escape []byte) rune {
	if len(escape) != 6 {
		return 0
	}
	n, _ := strconv.ParseUint(string(escape[2:]), 16, 16)
	return rune(n)
}

// halves converts the private characters to surrogates.
func halves(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r >= 0xE000 && r < 0xE800 {
			var t wtf8.Text
			_ = t.UnmarshalJSON([]byte(`"\u` + strconv.FormatInt(int64(r)-halfToPrivate, 16) + `"`))
			b.WriteString(string(t))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// halvesInMessages converts the private characters in the texts of messages to surrogates.
func halvesInMessages(messages schemas.Messages) {
	for _, m := range messages {
		switch m := m.(type) {
		case *schemas.UserMessage:
			halvesInContents(m.Content)
		case *schemas.AssistantMessage:
			halvesInContents(m.Content)
		case *schemas.ToolResultMessage:
			halvesInContents(m.Content)
		}
	}
}

func halvesInContents(cs schemas.Contents) {
	for i, c := range cs {
		switch b := c.(type) {
		case schemas.Text:
			b.Text = halves(b.Text)
			cs[i] = b
		case schemas.Thinking:
			b.Thinking = halves(b.Thinking)
			cs[i] = b
		}
	}
}

// joinHalves splits recorded deltas as this module does, never between the surrogates of a character. A delta of only
// one surrogate is removed, and its surrogate is added to the next delta.
func joinHalves(events []any) []any {
	joiners := make(map[any]*wtf8.Joiner)
	var out []any
	for _, e := range events {
		event := e.(object)
		if delta, ok := event["delta"].(string); ok {
			j := joiners[event["contentIndex"]]
			if j == nil {
				j = new(wtf8.Joiner)
				joiners[event["contentIndex"]] = j
			}
			whole := j.Add(halves(delta))
			if whole == "" && delta != "" {
				continue
			}
			event["delta"] = whole
		}
		out = append(out, event)
	}
	return out
}
