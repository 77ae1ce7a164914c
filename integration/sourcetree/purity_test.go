package sourcetree_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"
)

// impureTime are the functions of package time that read the clock or start timers.
var impureTime = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker",
	"Local"}

// TestLoopAsksNothing checks the source of package loop: its results may depend on events only. So it must start no
// goroutine, use no channel and not read the clock.
func TestLoopAsksNothing(t *testing.T) {
	t.Parallel()
	loop := packages(t, "./loop")[0]
	files := token.NewFileSet()
	for _, name := range loop.GoFiles {
		file, err := parser.ParseFile(files, filepath.Join(loop.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range impurities(file) {
			t.Errorf("%s: package loop must not use %s", files.Position(found.at), found.what)
		}
	}
}

func TestImpuritiesAreFound(t *testing.T) {
	t.Parallel()
	const source = `package p
import "time"
func f() (c chan int) { go f(); select {}; return g(time.Now()) }`
	file, err := parser.ParseFile(token.NewFileSet(), "p.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, found := range impurities(file) {
		got = append(got, found.what)
	}
	if want := "a channel, a goroutine, select, time.Now"; strings.Join(got, ", ") != want {
		t.Errorf("found %q, want %s", got, want)
	}
}

type impurity struct {
	what string
	at   token.Pos
}

func impurities(file *ast.File) (found []impurity) {
	ast.Inspect(file, func(n ast.Node) bool {
		if what := impure(n); what != "" {
			found = append(found, impurity{what, n.Pos()})
		}
		return true
	})
	return found
}

func impure(n ast.Node) string {
	switch n := n.(type) {
	case *ast.GoStmt:
		return "a goroutine"
	case *ast.ChanType:
		return "a channel"
	case *ast.SelectStmt:
		return "select"
	case *ast.SelectorExpr:
		pkg, ok := n.X.(*ast.Ident)
		if !ok || pkg.Name != "time" {
			return ""
		}
		for _, name := range impureTime {
			if n.Sel.Name == name {
				return "time." + name
			}
		}
	}
	return ""
}
