package sourcetree_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	// named matches a first word that can only be an identifier.
	named = regexp.MustCompile(`^[A-Za-z]*[a-z][A-Z]\w*$`)
	// linked matches a doc link to an identifier of the package or to a member of one. Words in capitals are not links.
	linked = regexp.MustCompile(`\[([A-Z]\w*(?:\.[A-Z]\w*)?)\](?:[^(\[]|$)`)
)

// TestCommentsNameWhatIsThere checks that a doc comment that begins with an identifier begins with the one it
// documents, and that doc links resolve. No other tool notices a comment that a rename left behind.
func TestCommentsNameWhatIsThere(t *testing.T) {
	t.Parallel()
	dirs := map[string][]string{}
	for _, name := range goFiles(t) {
		dirs[path.Dir(name)] = append(dirs[path.Dir(name)], name)
	}
	if len(dirs) < 100 {
		t.Fatalf("found only %d packages", len(dirs))
	}
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		set := token.NewFileSet()
		var files []*ast.File
		for _, name := range dirs[dir] {
			file, err := parser.ParseFile(set, filepath.Join(root, filepath.FromSlash(name)), nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			files = append(files, file)
		}
		for _, m := range misnamed(files) {
			t.Errorf("%s: %s", set.Position(m.at), m.what)
		}
	}
}

// mistake is a comment with a wrong name or link.
type mistake struct {
	at   token.Pos
	what string
}

// misnamed returns the mistakes in the files of a directory.
func misnamed(files []*ast.File) (found []mistake) {
	there := map[string]bool{}
	for _, file := range files {
		ast.Inspect(file, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				there[id.Name] = true
			}
			return true
		})
	}
	for _, file := range files {
		for _, d := range file.Decls {
			name, doc := declared(d)
			first, _, _ := strings.Cut(strings.TrimSpace(doc.Text()), " ")
			if first = strings.Trim(first, ".,:;'\n"); named.MatchString(first) && first != name && name != "" {
				found = append(found, mistake{doc.Pos(), first + " is " + name})
			}
		}
		for _, c := range file.Comments {
			for _, m := range linked.FindAllStringSubmatch(c.Text(), -1) {
				parts := strings.Split(m[1], ".")
				missing := slices.ContainsFunc(parts, func(part string) bool { return !there[part] })
				if missing && strings.ToUpper(m[1]) != m[1] {
					found = append(found, mistake{c.Pos(), "[" + m[1] + "] leads nowhere"})
				}
			}
		}
	}
	return found
}

// declared returns the name and the comment of a declaration; a group has no name.
func declared(d ast.Decl) (name string, doc *ast.CommentGroup) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		return d.Name.Name, d.Doc
	case *ast.GenDecl:
		if len(d.Specs) == 1 {
			switch s := d.Specs[0].(type) {
			case *ast.TypeSpec:
				return s.Name.Name, d.Doc
			case *ast.ValueSpec:
				return s.Names[0].Name, d.Doc
			}
		}
		return "", d.Doc
	}
	return "", nil
}

func TestMisnamedCommentsAreFound(t *testing.T) {
	t.Parallel()
	const source = `package p

// NewThing makes what [Thing.Run] needs, see [Gone], [Thing.Gone], [a text](x) and [DONE].
func New() {}

// Thing runs.
type Thing struct{}

// Run runs [New].
func (Thing) Run() {}
`
	file, err := parser.ParseFile(token.NewFileSet(), "p.go", source, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range misnamed([]*ast.File{file}) {
		got = append(got, m.what)
	}
	want := []string{"NewThing is New", "[Gone] leads nowhere", "[Thing.Gone] leads nowhere"}
	if !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}
