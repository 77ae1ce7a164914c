package providers_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// deviations holds the cases for which a better outcome than the recorded one is required. It maps the path of a case
// to the members that replace those of its expectation.
//
// testdata/DEVIATIONS.md lists them with the reason, a line each that begins "- `<api>/<case>`: ". The better outcome
// is in testdata/better/<api>/<case>.json: an object that is merged into the expectation by the rules of JSON Merge
// Patch.
func deviations(t *testing.T) map[string]object {
	text, err := os.ReadFile("testdata/DEVIATIONS.md")
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]object)
	for _, m := range regexp.MustCompile("(?m)^- `([^`]+)`: \\S").FindAllStringSubmatch(string(text), -1) {
		raw, err := os.ReadFile("testdata/better/" + m[1] + ".json")
		if err != nil {
			t.Errorf("DEVIATIONS.md: %v", err)
			continue
		}
		var better object
		if err := json.Unmarshal(raw, &better); err != nil || len(better) == 0 {
			t.Errorf("better outcome of %s: %v, %d members", m[1], err, len(better))
		}
		all[m[1]] = better
	}
	return all
}

// TestDeviationsAreListed checks that every better outcome is listed and belongs to an existing case.
func TestDeviationsAreListed(t *testing.T) {
	t.Parallel()
	listed := deviations(t)
	if _, err := os.Stat("testdata/better"); err == nil {
		for _, file := range filesBelow(t, "testdata/better") {
			place := strings.TrimSuffix(strings.TrimPrefix(file, "testdata/better/"), ".json")
			if listed[place] == nil {
				t.Errorf("%s is not in DEVIATIONS.md", place)
			}
		}
	}
	cases := recordings(t, conformanceFolder)
	for place := range listed {
		if !slices.Contains(cases, conformanceFolder+"/"+place+".json") {
			t.Errorf("DEVIATIONS.md: there is no case %s", place)
		}
	}
}

// merge applies a JSON Merge Patch (RFC 7386).
func merge(target, patch any) any {
	p, ok := patch.(object)
	if !ok {
		return patch
	}
	out, ok := target.(object)
	if !ok {
		out = object{}
	}
	for name, v := range p {
		if v == nil {
			delete(out, name)
		} else {
			out[name] = merge(out[name], v)
		}
	}
	return out
}
