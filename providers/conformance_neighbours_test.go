package providers_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const neighboursFolder = "testdata/neighbours"

// A neighbour is an additional case that differs from a recorded one by a JSON Merge Patch. Neighbours test what the
// recordings do not show, or what the reference gets wrong.
type neighbour struct {
	Name  string `json:"name"`
	Why   string `json:"why"`
	Of    string `json:"of"`
	Patch object `json:"patch"`
}

// TestNeighbours plays the neighbours of each API's recordings, to which the better outcomes are applied first.
func TestNeighbours(t *testing.T) {
	t.Parallel()
	better := deviations(t)
	for _, file := range filesBelow(t, neighboursFolder) {
		api := strings.TrimSuffix(filepath.Base(file), ".json")
		stream := apis[api]
		if stream == nil {
			t.Errorf("%s: there is no such API", file)
			continue
		}
		for _, n := range neighboursIn(t, file) {
			t.Run(api+"/"+n.Name, func(t *testing.T) {
				t.Parallel()
				place := api + "/" + n.Of
				raw := readFile(t, filepath.Join(conformanceFolder, place+".json"))
				for _, problem := range play(t, patched(t, raw, better[place], n.Patch), stream, nil) {
					t.Error(problem)
				}
			})
		}
	}
}

func neighboursIn(t *testing.T, file string) (list []neighbour) {
	d := json.NewDecoder(bytes.NewReader(readFile(t, file)))
	d.DisallowUnknownFields()
	if err := d.Decode(&list); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return list
}

// patched returns a case with its better outcome and a patch merged into it.
func patched(t *testing.T, raw []byte, better, patch object) []byte {
	var recorded any
	if err := json.Unmarshal(raw, &recorded); err != nil {
		t.Fatal(err)
	}
	if better != nil {
		recorded = merge(recorded, object{"expected": better})
	}
	out, err := json.Marshal(merge(recorded, patch))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func readFile(t *testing.T, path string) []byte {
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
