package integration_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// walkRow is a row of the table in docs/architecture.md that follows one prompt.
var walkRow = regexp.MustCompile("(?m)^\\| [0-9]+ \\| `([a-z]+)\\.([A-Za-z.]+)` \\|")

// maxWalk limits the number of functions that a newcomer has to know to follow a prompt from the client to its reply.
const maxWalk = 15

// walkFolders are the packages that process a prompt, by name.
var walkFolders = map[string]string{
	"client": "bus/client", "reader": "bus/inbox/reader", "host": "loop/host", "driver": "loop/driver", "loop": "loop",
	"eventstore": "eventstore", "dispatch": "bus/dispatch", "worker": "tools/worker",
}

// The functions that the document names exist, and are not more than maxWalk.
func TestTheWalkOfAPrompt(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := walkRow.FindAllStringSubmatch(string(text), -1)
	if len(rows) == 0 || len(rows) > maxWalk {
		t.Errorf("the walk names %d functions, want 1 to %d", len(rows), maxWalk)
	}
	for _, row := range rows {
		folder, ok := walkFolders[row[1]]
		if !ok {
			t.Errorf("the walk names package %s, which is not in walkFolders", row[1])
			continue
		}
		if !functionsOf(t, folder)[row[2]] {
			t.Errorf("package %s has no function %s", folder, row[2])
		}
	}
}

// functionsOf returns the functions and methods of a package, methods as Type.Method.
func functionsOf(t *testing.T, folder string) map[string]bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", filepath.FromSlash(folder), "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range f.Decls {
			if d, ok := decl.(*ast.FuncDecl); ok {
				all[receiverOf(d)+d.Name.Name] = true
			}
		}
	}
	return all
}

// receiverOf returns the receiver type of a method, followed by a dot; "" for a function.
func receiverOf(d *ast.FuncDecl) string {
	if d.Recv == nil {
		return ""
	}
	of := d.Recv.List[0].Type
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if name, ok := of.(*ast.Ident); ok {
		return name.Name + "."
	}
	return ""
}
