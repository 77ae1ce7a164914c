package schemas_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/schemas"
)

var update = flag.Bool("update", false, "write docs/asyncapi.yaml")

const asyncAPIFile = "../docs/asyncapi.yaml"

// TestAsyncAPI holds docs/asyncapi.yaml against the schemas, the subjects and the examples; with -update it writes it.
func TestAsyncAPI(t *testing.T) {
	body, err := yaml.MarshalWithOptions(asyncAPI(t), yaml.Indent(2), yaml.UseLiteralStyleIfMultiline(true))
	if err != nil {
		t.Fatal(err)
	}
	const head = "# Generated from package schemas: go test ./schemas -run AsyncAPI -update\n"
	want := head + regexp.MustCompile(`(?m) +$`).ReplaceAllString(string(body), "")
	if *update {
		if err := os.MkdirAll(filepath.Dir(asyncAPIFile), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(asyncAPIFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(asyncAPIFile)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, strings.ReplaceAll(string(got), "\r\n", "\n")); d != "" {
		t.Errorf("%s is not up to date; run go test ./schemas -run AsyncAPI -update (-want +file):\n%s", asyncAPIFile, d)
	}
}

// Every reference of the file leads somewhere: within the document, or to a schema.
func TestAsyncAPIReferences(t *testing.T) {
	raw, err := os.ReadFile(asyncAPIFile)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	schemaRefs := make(map[string]bool)
	walkRefs(doc, func(ref string) {
		if local, ok := strings.CutPrefix(ref, "#/"); ok {
			if !reaches(doc, strings.Split(local, "/")) {
				t.Errorf("%s leads nowhere", ref)
			}
			return
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(asyncAPIFile), ref)); err != nil {
			t.Errorf("%s: %v", ref, err)
		}
		schemaRefs[ref] = true
	})
	for _, name := range schemas.SchemaNames() {
		switch name.Area {
		case "commands", "events", "updates", "models", "keys", "queries":
			if !schemaRefs[schemaPath(name)] {
				t.Errorf("%s/%s: no message carries it", name.Area, name.Name)
			}
		}
	}
}

func walkRefs(node any, visit func(ref string)) {
	switch n := node.(type) {
	case map[string]any:
		if ref, ok := n["$ref"].(string); ok {
			visit(ref)
		}
		for key, v := range n {
			if key != "examples" {
				walkRefs(v, visit)
			}
		}
	case []any:
		for _, v := range n {
			walkRefs(v, visit)
		}
	}
}

func reaches(node any, path []string) bool {
	for _, step := range path {
		m, ok := node.(map[string]any)
		if !ok || m[step] == nil {
			return false
		}
		node = m[step]
	}
	return true
}
