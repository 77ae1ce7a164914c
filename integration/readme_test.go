package integration_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestGoInDocumentsCompiles vets every block of Go in the README and below docs. A block is a whole program.
func TestGoInDocumentsCompiles(t *testing.T) {
	t.Parallel()
	documents := []string{"README.md"}
	err := filepath.WalkDir(filepath.Join("..", "docs"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "node_modules" {
			return fs.SkipDir
		}
		if err == nil && filepath.Ext(path) == ".md" {
			documents = append(documents, strings.TrimPrefix(filepath.ToSlash(path), "../"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	programs := 0
	for _, document := range documents {
		text, err := os.ReadFile(filepath.Join("..", document))
		if err != nil {
			t.Fatal(err)
		}
		for i, program := range goBlocks(string(text)) {
			programs++
			if out, err := vet(t, program); err != nil {
				t.Errorf("%s, block %d of Go: %v\n%s", document, i+1, err, out)
			}
		}
	}
	if programs < 2 {
		t.Errorf("only %d programs found, the README alone has two", programs)
	}
}

// TestBrokenGoInADocumentIsSeen holds the test above to what it is for.
func TestBrokenGoInADocumentIsSeen(t *testing.T) {
	t.Parallel()
	blocks := goBlocks("```go\npackage main\n\nfunc main() { agent.New() }\n```\n")
	if len(blocks) != 1 {
		t.Fatalf("%d blocks found, want 1", len(blocks))
	}
	if out, err := vet(t, blocks[0]); err == nil || !strings.Contains(out, "undefined: agent") {
		t.Errorf("%v\n%s", err, out)
	}
}

var goBlock = regexp.MustCompile("(?ms)^```go\n(.*?)^```$")

func goBlocks(text string) (blocks []string) {
	for _, m := range goBlock.FindAllStringSubmatch(text, -1) {
		blocks = append(blocks, m[1])
	}
	return blocks
}

// vet vets a program as a package of this module, in place of an example's file: it is laid over that and not written
// into the module, where other tests that list packages would see it.
func vet(t *testing.T, program string) (string, error) {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	source, overlay := filepath.Join(dir, "main.go"), filepath.Join(dir, "overlay.json")
	const folder = "docs/examples/dice"
	replace, err := json.Marshal(map[string]map[string]string{
		"Replace": {filepath.Join(root, folder, "main.go"): source},
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, data := range map[string][]byte{source: []byte(program), overlay: replace} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.CommandContext(t.Context(), "go", "vet", fmt.Sprintf("-overlay=%s", overlay), "./"+folder)
	command.Dir = root
	out, err := command.CombinedOutput()
	return string(out), err
}
