package schemas_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/schemas"
)

// sharedParts are schemas of definitions only: no message is one of them.
var sharedParts = map[schemas.SchemaName]bool{
	{Area: "common", Name: "types"}:   true,
	{Area: "common", Name: "content"}: true,
}

// Every schema has examples: valid*.json, which also pass through the Go type, and invalid-*.json, each wrong in the
// one way that its name says.
func TestExamples(t *testing.T) {
	for _, name := range schemas.SchemaNames() {
		if sharedParts[name] {
			continue
		}
		t.Run(name.Area+"/"+name.Name, func(t *testing.T) {
			valid := examples(t, name, "valid")
			if len(valid) == 0 {
				t.Error("no valid example")
			}
			for file, raw := range valid {
				checkValid(t, name, file, raw)
			}
			invalid := examples(t, name, "invalid-")
			if len(invalid) < 3 {
				t.Errorf("%d invalid examples, want at least 3", len(invalid))
			}
			for file, raw := range invalid {
				checkInvalid(t, name, file, raw)
			}
		})
	}
}

// An example of something that is no schema would never be looked at.
func TestExamplesBelongToSchemas(t *testing.T) {
	dirs, err := filepath.Glob("testdata/*/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range dirs {
		area, name := filepath.Split(strings.TrimPrefix(filepath.ToSlash(dir), "testdata/"))
		if _, ok := schemas.Schema(strings.TrimSuffix(area, "/"), name); !ok && area != "fuzz/" {
			t.Errorf("%s: no such schema", dir)
		}
	}
}

func checkValid(t *testing.T, name schemas.SchemaName, file string, raw []byte) {
	t.Helper()
	if err := schemas.ValidateAs(name, raw); err != nil {
		t.Errorf("%s: %v", file, err)
		return
	}
	v, err := decodeAs(name, raw)
	if err != nil {
		t.Errorf("%s: decode: %v", file, err)
		return
	}
	first := marshal(t, v)
	if err := schemas.ValidateAs(name, first); err != nil {
		t.Errorf("%s: encoded again: %v\n%s", file, err, first)
	}
	if v, err = decodeAs(name, first); err != nil {
		t.Errorf("%s: decode again: %v", file, err)
		return
	}
	if second := marshal(t, v); !bytes.Equal(first, second) {
		t.Errorf("%s: encodings differ:\n%s\n%s", file, first, second)
	}
}

func checkInvalid(t *testing.T, name schemas.SchemaName, file string, raw []byte) {
	t.Helper()
	err := schemas.ValidateAs(name, raw)
	var invalid *schemas.ValidationError
	switch {
	case !errors.As(err, &invalid):
		t.Errorf("%s: error %v, want a *ValidationError", file, err)
	case len(invalid.Problems) != 1:
		t.Errorf("%s: wrong in more than one way: %q", file, invalid.Problems)
	}
}

func decodeAs(name schemas.SchemaName, raw []byte) (any, error) {
	switch name.Area {
	case "messages":
		return schemas.DecodeMessage(raw)
	case "events":
		return schemas.DecodeEventData(schemas.EventType(name.Name), raw)
	case "updates":
		return schemas.DecodeUpdateData(schemas.EventType(name.Name), raw)
	case "commands":
		_, data, err := schemas.ParseCommand(schemas.CommandKind(name.Name), raw)
		return data, err
	}
	if name.Area == "queries" {
		return decodeQuery(name.Name, raw)
	}
	into := map[string]any{
		"tool_definition":   new(schemas.ToolDefinition),
		"tool_announcement": new(schemas.ToolAnnouncement),
		"tool_request":      new(schemas.ToolRequest),
		"input":             new(schemas.Input),
		"model_request":     new(schemas.ModelRequest),
		"model_frame":       new(schemas.ModelFrame),
		"key_answer":        new(schemas.KeyAnswer),
		"hook_request":      new(schemas.HookRequest),
		"hook_answer":       new(schemas.HookAnswer),
		"profile":           new(schemas.Profile),
		"resources":         new(schemas.Resources),
	}[name.Name]
	return into, json.Unmarshal(raw, into)
}

// examples returns the files of a schema's folder that begin with prefix.
func examples(t *testing.T, name schemas.SchemaName, prefix string) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("testdata", name.Area, name.Name, prefix+"*.json"))
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string][]byte)
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found[filepath.Base(file)] = raw
	}
	return found
}

func marshal(t testing.TB, v any) []byte {
	t.Helper()
	raw, err := schemas.Marshal(v)
	if err != nil {
		t.Fatalf("marshal %T: %v", v, err)
	}
	return raw
}
