package sessionfile_test

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/loopbus/loopbus/schemas/casetest"
)

// TestPlayerNotices checks that a case fails if its expectation differs: each case is played with the first or the last
// leaf value of its expectation changed.
func TestPlayerNotices(t *testing.T) {
	t.Parallel()
	cases := loadCases(t, filepath.Join("testdata", "conformance"))
	cases = append(cases, loadCases(t, filepath.Join("testdata", "deviations"))...)
	listed := casetest.Deviating(t)
	for _, c := range cases {
		if listed[c.number()] && c.Refused || c.Name == "013-no-header" {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			var want any
			if err := json.Unmarshal(c.Expected, &want); err != nil {
				t.Fatal(err)
			}
			for _, last := range []bool{false, true} {
				wrong := *c
				wrong.Expected = marshal(t, changed(want, last))
				if d := wrong.difference(t); d == "" {
					t.Errorf("plays as if this were recorded: %s", wrong.Expected)
				}
			}
		})
	}
}

// TestPlayerNoticesAFileThatIsOpened checks that a case fails if a file that must be refused is opened.
func TestPlayerNoticesAFileThatIsOpened(t *testing.T) {
	t.Parallel()
	c := loadCase(t, filepath.Join("testdata", "conformance", "001-plain.json"))
	c.Refused = true
	if d := c.difference(t); d == "" {
		t.Error("a session's file counts as refused")
	}
}

// changed returns the value with its first or last leaf changed.
func changed(v any, last bool) any {
	switch v := v.(type) {
	case []any:
		if len(v) > 0 {
			i := 0
			if last {
				i = len(v) - 1
			}
			list := append([]any{}, v...)
			list[i] = changed(v[i], last)
			return list
		}
	case map[string]any:
		for _, name := range []string{"messages", "leaf", "id", "result", "path", "summary", "tokens"} {
			if inner, ok := v[name]; ok {
				m := map[string]any{}
				for k := range v {
					m[k] = v[k]
				}
				m[name] = changed(inner, last)
				return m
			}
		}
	}
	return "something else"
}
