package main

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode"

	"github.com/loopbus/loopbus/schemas"
)

// forged is what a text could do to a terminal, and to who reads what it shows.
const forged = "x\x1b]0;owned\x07\u009b1m\u202e\nreplay: forged\r#9 forged"

// forge fills a value with texts that are forged, wherever there is a place for one.
func forge(v reflect.Value) {
	content := schemas.Contents{schemas.Text{Text: forged}, schemas.Thinking{Thinking: forged},
		schemas.ToolCall{ID: forged, Name: forged, Arguments: json.RawMessage(`{"a":"\u001b"}`)},
		schemas.Image{MimeType: forged, Data: "AAAA"}}
	all := schemas.Messages{&schemas.UserMessage{Content: content},
		&schemas.AssistantMessage{Content: content, API: forged, Provider: forged, Model: forged, ResponseModel: forged,
			ErrorMessage: forged, StopReason: schemas.StopError},
		&schemas.ToolResultMessage{ToolCallID: forged, ToolName: forged, Content: content},
		&schemas.CustomMessage{Role: "custom", Raw: json.RawMessage(`{"role":"custom","content":"\u001b]"}`)}}
	switch v.Type() {
	case reflect.TypeFor[json.RawMessage]():
		v.SetBytes([]byte(`{"forged":"\u001b]0;owned\u0007"}`))
		return
	case reflect.TypeFor[schemas.Contents]():
		v.Set(reflect.ValueOf(content))
		return
	case reflect.TypeFor[schemas.Messages]():
		v.Set(reflect.ValueOf(all))
		return
	case reflect.TypeFor[schemas.Message]():
		v.Set(reflect.ValueOf(all[1]))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(forged)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				forge(v.Field(i))
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		forge(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		forge(v.Index(0))
	}
}

// Whatever an event says, as an archive or an imported file of somebody else's may, what is shown of it does not drive
// the terminal, and has no line that looks like one of the program's.
func TestWhatIsShownCannotForgeALine(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.writer("plain").append(&schemas.AgentStart{})
	for _, kind := range schemas.DurableEventTypes() {
		data, err := schemas.DecodeEventData(kind, []byte(`{}`))
		if err != nil {
			data = &schemas.MessageEnd{MessageID: "m2"} // the others need a message
		}
		forge(reflect.ValueOf(data).Elem())
		session := strings.ReplaceAll(string(kind), "_", "-")
		w.writer(session).append(&schemas.AgentStart{}, data)
		for _, args := range [][]string{{"show", "--full", session}, {"diff", session, "plain"}} {
			r := w.replay(args...)
			for line := range strings.Lines(r.stdout + "\n" + r.stderr) {
				drives := strings.ContainsFunc(strings.TrimSuffix(line, "\n"), func(c rune) bool {
					return c != '\t' && unicode.In(c, unicode.Cc, unicode.Cf)
				})
				if drives || strings.HasPrefix(line, "replay: forged") || strings.HasPrefix(line, "#9 forged") {
					t.Errorf("%v: %q", args, line)
				}
			}
		}
	}
}
