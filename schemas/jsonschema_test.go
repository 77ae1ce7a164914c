package schemas_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/loopbus/loopbus/schemas"
)

func TestSchemaHeads(t *testing.T) {
	for _, name := range schemas.SchemaNames() {
		raw, ok := schemas.Schema(name.Area, name.Name)
		if !ok {
			t.Fatalf("%v: listed, but not there", name)
		}
		var head struct {
			Schema      string `json:"$schema"`
			ID          string `json:"$id"`
			Title       string `json:"title"`
			Description string `json:"description"`
		}
		if err := json.Unmarshal(raw, &head); err != nil {
			t.Fatalf("%v: %v", name, err)
		}
		if head.Schema != "https://json-schema.org/draft/2020-12/schema" {
			t.Errorf("%v: $schema %q", name, head.Schema)
		}
		if want := schemas.DataSchema(name.Area, name.Name); head.ID != want {
			t.Errorf("%v: $id %q, want %q", name, head.ID, want)
		}
		if want := "loopbus." + name.Area + ".v1." + name.Name; head.Title != want {
			t.Errorf("%v: title %q, want %q", name, head.Title, want)
		}
		if head.Description == "" {
			t.Errorf("%v: no description", name)
		}
	}
}

// A stranger reads the schemas instead of the code: every member says what it is, or refers to what says so.
func TestEveryMemberIsDescribed(t *testing.T) {
	for _, name := range schemas.SchemaNames() {
		raw, _ := schemas.Schema(name.Area, name.Name)
		var doc map[string]any
		if err := json.Unmarshal(raw, &doc); err != nil {
			t.Fatal(err)
		}
		checkMembers(t, schemas.DataSchema(name.Area, name.Name), doc)
	}
}

func checkMembers(t *testing.T, at string, node map[string]any) {
	t.Helper()
	for _, group := range []string{"properties", "$defs"} {
		members, _ := node[group].(map[string]any)
		for name, v := range members {
			member, ok := v.(map[string]any)
			if !ok {
				continue // true or false
			}
			if member["description"] == nil && member["$ref"] == nil {
				t.Errorf("%s: %s %s has no description", at, group, name)
			}
			if member["additionalProperties"] != nil {
				t.Errorf("%s: %s %s forbids unknown members", at, group, name)
			}
			checkMembers(t, at+"/"+name, member)
		}
	}
}

func TestSchemaNamesAreSortedAndComplete(t *testing.T) {
	names := schemas.SchemaNames()
	sorted := slices.IsSortedFunc(names, func(a, b schemas.SchemaName) int {
		return strings.Compare(a.Area+"/"+a.Name, b.Area+"/"+b.Name)
	})
	if !sorted {
		t.Error("not sorted")
	}
	for _, e := range schemas.DurableEventTypes() {
		if !slices.Contains(names, schemas.SchemaName{Area: "events", Name: string(e)}) {
			t.Errorf("event %s has no schema", e)
		}
	}
	for _, c := range schemas.CommandKinds() {
		if !slices.Contains(names, schemas.SchemaName{Area: "commands", Name: string(c)}) {
			t.Errorf("command %s has no schema", c)
		}
	}
}

func TestSchemaUnknown(t *testing.T) {
	for _, name := range []schemas.SchemaName{
		{}, {"commands", "dance"}, {"commands", "../events/error"}, {"../jsonschema/events", "error"}, {"events", "error.v1"},
	} {
		if raw, ok := schemas.Schema(name.Area, name.Name); ok {
			t.Errorf("%v: got %d bytes", name, len(raw))
		}
	}
}

// Compiling never leaves the program: neither for files nor for the network.
func TestCompilerLoadsOnlyEmbeddedSchemas(t *testing.T) {
	for _, ref := range []string{
		"file:///etc/hostname", "http://127.0.0.1/x.json", "https://example.com/x.json",
		schemas.SchemaBase + "commands/none.v1.json",
		schemas.SchemaBase + "../../doc.go",
	} {
		c := schemas.NewCompiler()
		if err := c.AddResource("https://example.org/s.json", strings.NewReader(`{"$ref":"`+ref+`"}`)); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Compile("https://example.org/s.json"); err == nil {
			t.Errorf("%s: compiled", ref)
		}
	}
	if _, err := schemas.NewCompiler().Compile(schemas.DataSchema("commands", "prompt")); err != nil {
		t.Error(err)
	}
}

// Schemas are compiled while others, which share parts with them, are used.
func TestSchemasAreCompiledSideBySide(t *testing.T) {
	t.Parallel()
	var wg sync.WaitGroup
	for range 4 {
		for _, name := range schemas.SchemaNames() {
			if name.Area != "commands" {
				continue
			}
			wg.Go(func() {
				err := schemas.ValidateCommand(schemas.CommandKind(name.Name), []byte(`[]`))
				if wrong := new(schemas.ValidationError); !errors.As(err, &wrong) {
					t.Errorf("command %s: %v, want a *ValidationError", name.Name, err)
				}
			})
		}
	}
	wg.Wait()
}
