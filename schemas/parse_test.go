package schemas_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/schemas"
)

func TestParseCommand(t *testing.T) {
	text := func(s string) schemas.Input { return schemas.Input{Text: s} }
	tests := map[string]struct {
		kind    schemas.CommandKind
		payload string
		id      string
		want    schemas.CommandData
	}{
		"prompt":  {"prompt", `{"text":"hi"}`, "", &schemas.Prompt{Input: text("hi")}},
		"with id": {"steer", ` {"id":"c1","text":"hi"}` + "\n", "c1", &schemas.Steer{Input: text("hi")}},
		"when busy": {"prompt", `{"text":"hi","whenBusy":"reject"}`, "",
			&schemas.Prompt{Input: text("hi"), WhenBusy: schemas.BusyReject}},
		"unknown member":    {"follow_up", `{"text":"hi","x":{"Text":1}}`, "", &schemas.FollowUp{Input: text("hi")}},
		"empty abort":       {"abort", ``, "", &schemas.Abort{}},
		"blank continue":    {"continue", " \n", "", &schemas.Continue{}},
		"empty clear_queue": {"clear_queue", ``, "", &schemas.ClearQueue{}},
		"every tool":        {"set_tools", `{"tools":null}`, "", &schemas.SetTools{}},
		"no tool":           {"set_tools", `{"tools":[]}`, "", &schemas.SetTools{Tools: []string{}}},
		"arguments keep order": {"prompt", `{"messages":[{"role":"note","z":1,"a":2}]}`, "",
			&schemas.Prompt{Input: schemas.Input{Messages: schemas.Messages{
				&schemas.CustomMessage{Role: "note", Raw: []byte(`{"role":"note","z":1,"a":2}`)}}}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			id, got, err := schemas.ParseCommand(test.kind, []byte(test.payload))
			if err != nil {
				t.Fatal(err)
			}
			if id != test.id {
				t.Errorf("id %q, want %q", id, test.id)
			}
			if d := cmp.Diff(test.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestParseCommandRefuses(t *testing.T) {
	tests := map[string]struct {
		kind    schemas.CommandKind
		payload string
		want    string // the one problem
	}{
		"empty prompt":    {"prompt", ``, "payload: missing properties: 'text'"},
		"empty set_model": {"set_model", ``, "payload: missing properties: 'model'"},
		"integer as 1.0": {"tool_result", `{"call":"c1","toolCallId":"a","toolName":"ls",` +
			`"result":{"content":[]},"isError":false,"durationMs":1.0}`, "payload: durationMs cannot be read as int64"},
		"integer with exponent": {"prompt", `{"messages":[{"role":"user","content":"x","timestamp":1e3}]}`,
			"payload: timestamp cannot be read as int64"},
		"smuggled member": {"prompt", `{"text":"hi","Text":"bye"}`,
			`payload: member "Text" must be written in another case: "text"`},
		"smuggled role": {"prompt", `{"messages":[{"role":"user","content":"x","ROLE":"note"}]}`,
			`/messages/0: member "ROLE" must be written in another case: "role"`},
		"id of a wrong type": {"abort", `{"id":7}`, "/id: expected string, but got number"},
		"text longer than bound": {"prompt", `{"text":"` + strings.Repeat("a", schemas.MaxText+1) + `"}`,
			"/text: length must be <= 1048576, but got 1048577"},
		"id longer than bound": {"abort", `{"id":"` + strings.Repeat("ü", schemas.MaxCommandID+1) + `"}`,
			"/id: length must be <= 128, but got 129"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			id, data, err := schemas.ParseCommand(test.kind, []byte(test.payload))
			var invalid *schemas.ValidationError
			if !errors.As(err, &invalid) || id != "" || data != nil {
				t.Fatalf("%q, %v, %v, want only a *ValidationError", id, data, err)
			}
			if d := cmp.Diff([]string{test.want}, invalid.Problems); d != "" {
				t.Errorf("problems (-want +got):\n%s", d)
			}
		})
	}
}

func TestPlainText(t *testing.T) {
	in := schemas.Input{Text: " list the files\n"}
	for kind, want := range map[schemas.CommandKind]schemas.CommandData{
		schemas.CommandPrompt:   &schemas.Prompt{Input: in},
		schemas.CommandSteer:    &schemas.Steer{Input: in},
		schemas.CommandFollowUp: &schemas.FollowUp{Input: in},
	} {
		got, err := schemas.PlainText(kind, []byte(in.Text))
		if err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", kind, d)
		}
	}
}

func TestPlainTextRefuses(t *testing.T) {
	tests := map[string]struct {
		kind    schemas.CommandKind
		payload string
		want    string
	}{
		"empty":         {"prompt", "", "payload: blank text"},
		"blank":         {"steer", " \t\n", "payload: blank text"},
		"invalid UTF-8": {"follow_up", "caf\xe9", "payload: not valid UTF-8"},
		"other kind":    {"abort", "stop it", "payload: plain text, where only JSON will do"},
		"too long":      {"prompt", strings.Repeat("a", schemas.MaxText+1), "payload: text too long"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			data, err := schemas.PlainText(test.kind, []byte(test.payload))
			var invalid *schemas.ValidationError
			if !errors.As(err, &invalid) || data != nil {
				t.Fatalf("%v, %v, want only a *ValidationError", data, err)
			}
			if d := cmp.Diff([]string{test.want}, invalid.Problems); d != "" {
				t.Errorf("problems (-want +got):\n%s", d)
			}
		})
	}
}

func TestIsPlainText(t *testing.T) {
	for payload, want := range map[string]bool{
		"list the files": true, "[1]": true, `"hi"`: true, "  hi {": true, "\ufeff{}": true,
		"{}": false, " \r\n\t{\"text\":\"hi\"}": false, "{broken": false, "": false, " ": false,
	} {
		if got := schemas.IsPlainText([]byte(payload)); got != want {
			t.Errorf("%q: %v, want %v", payload, got, want)
		}
	}
}
