package sourcetree_test

import (
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
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "node_modules" {
			return fs.SkipDir
		}
		if err == nil && filepath.Ext(path) == ".md" {
			documents = append(documents, strings.TrimPrefix(filepath.ToSlash(path), root+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	programs := map[string]string{}
	for _, document := range documents {
		text, err := os.ReadFile(filepath.Join(root, document))
		if err != nil {
			t.Fatal(err)
		}
		for i, program := range goBlocks(string(text)) {
			programs[fmt.Sprintf("%s/block%d", document, i+1)] = program
		}
	}
	if len(programs) < 2 {
		t.Errorf("only %d programs found, the README alone has two", len(programs))
	}
	if out, err := vet(t, programs); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestBrokenGoInADocumentIsSeen checks that the test above reports each broken program with its name.
func TestBrokenGoInADocumentIsSeen(t *testing.T) {
	t.Parallel()
	blocks := goBlocks("```go\npackage main\n\nfunc main() { agent.New() }\n```\n" +
		"text\n```go\npackage main\n\nfunc main() {}\n```\n" +
		"text\n```go\npackage main\n\nimport \"fmt\"\n\nfunc main() { fmt.Printf(\"%d\", \"a\") }\n```\n")
	if len(blocks) != 3 {
		t.Fatalf("%d blocks found, want 3", len(blocks))
	}
	out, err := vet(t, map[string]string{"a.md/block1": blocks[0], "a.md/block2": blocks[1], "b.md/block1": blocks[2]})
	if err == nil || !strings.Contains(out, "a.md/block1/main.go:3:15: undefined: agent") ||
		strings.Contains(out, "a.md/block2") || !strings.Contains(out, "b.md/block1/main.go:5:27: fmt.Printf format") {
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

// vet vets programs, each as a package with its name, in a module in a workspace with this one. A single go vet loads
// their imports once for all of them.
func vet(t *testing.T, programs map[string]string) (string, error) {
	t.Helper()
	tree, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	module, err := os.ReadFile(filepath.Join(tree, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^go .*\n`).Find(module)
	dir := t.TempDir()
	files := map[string]string{
		"go.mod":  fmt.Sprintf("module programs\n\n%s", version),
		"go.work": fmt.Sprintf("%s\nuse (\n\t.\n\t%q\n)\n", version, tree),
	}
	for name, program := range programs {
		files[filepath.Join(name, "main.go")] = program
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.CommandContext(t.Context(), "go", "vet", "./...")
	command.Dir, command.Env = dir, append(os.Environ(), "GOWORK=")
	out, err := command.CombinedOutput()
	return string(out), err
}
