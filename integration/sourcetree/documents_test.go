package sourcetree_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// documents returns the texts of the repository's Markdown files for readers, by path from its root.
func documents(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata" || d.Name() == ".git") {
			return fs.SkipDir
		}
		if filepath.Ext(name) != ".md" {
			return nil
		}
		text, err := os.ReadFile(name)
		all[strings.TrimPrefix(filepath.ToSlash(name), root+"/")] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 10 {
		t.Fatalf("only %d documents found", len(all))
	}
	return all
}

var (
	markdownLink = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading      = regexp.MustCompile(`(?m)^#+ +(.+?) *$`)
	fence        = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
)

// TestLinksInDocumentsLead checks that the file and the heading of every link within the repository exist.
func TestLinksInDocumentsLead(t *testing.T) {
	t.Parallel()
	all := documents(t)
	links := 0
	for name, text := range all {
		for _, m := range markdownLink.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			links++
			file, anchor, _ := strings.Cut(m[1], "#")
			target := name
			if file != "" {
				target = path.Join(path.Dir(name), file)
			}
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(target))); err != nil {
				t.Errorf("%s links %s: %v", name, m[1], err)
			} else if linked, ok := all[target]; ok && anchor != "" && !anchors(linked)[anchor] {
				t.Errorf("%s links %s, but the document has no such heading", name, m[1])
			}
		}
	}
	if links < 100 {
		t.Errorf("only %d links found", links)
	}
}

// TestLinksOfTheIndexesAreComplete checks that docs/README.md links every document, and docs/decisions/README.md every
// decision.
func TestLinksOfTheIndexesAreComplete(t *testing.T) {
	t.Parallel()
	all := documents(t)
	for _, folder := range []string{"docs", "docs/decisions"} {
		linked := map[string]bool{folder + "/README.md": true}
		for _, m := range markdownLink.FindAllStringSubmatch(all[folder+"/README.md"], -1) {
			file, _, _ := strings.Cut(m[1], "#")
			linked[path.Join(folder, file)] = true
		}
		for name := range all {
			if path.Dir(name) == folder && !linked[name] {
				t.Errorf("%s/README.md does not link %s", folder, name)
			}
		}
	}
}

// anchors returns the fragments of a document's headings, as code hosts generate them.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		all[strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, m[1])] = true
	}
	return all
}

var (
	goCommand  = regexp.MustCompile(`go (?:test|run|install|vet|build) [^\n|;#]*`)
	goFolder   = regexp.MustCompile(`(?:^|[\s/(])(\./[A-Za-z0-9_./-]+)`)
	goSelected = regexp.MustCompile(`-(run|bench) '?([A-Za-z][A-Za-z0-9_]*)`)
	namedTest  = regexp.MustCompile("`((?:Test|Benchmark|Fuzz)[A-Z][A-Za-z0-9]*)`")
)

// notYetThere are folders that readers create when they follow a document.
var notYetThere = map[string]bool{"./mytool": true}

// TestCommandsInDocumentsExist checks that the packages and tests in the commands of documents exist. It skips
// decisions and the changelog, which describe past versions.
func TestCommandsInDocumentsExist(t *testing.T) {
	t.Parallel()
	everywhere := testsOf(t, root, true)
	commands := 0
	for name, text := range documents(t) {
		if strings.HasPrefix(name, "docs/decisions/") || name == "CHANGELOG.md" {
			continue
		}
		for _, command := range goCommand.FindAllString(text, -1) {
			tests := map[string]bool{}
			for _, m := range goFolder.FindAllStringSubmatch(command, -1) {
				folder, below := strings.CutSuffix(m[1], "...")
				if folder = path.Clean(folder); notYetThere["./"+folder] {
					continue
				}
				commands++
				info, err := os.Stat(filepath.Join(root, filepath.FromSlash(folder)))
				if err != nil || !info.IsDir() {
					t.Errorf("%s has %q, but package %s does not exist", name, command, m[1])
					continue
				}
				maps.Copy(tests, testsOf(t, filepath.Join(root, filepath.FromSlash(folder)), below))
			}
			for _, m := range goSelected.FindAllStringSubmatch(command, -1) {
				if m[2] != "xxx" && len(tests) > 0 && !selects(m[1], m[2], tests) {
					t.Errorf("%s has %q, but no %s test matches %s", name, command, m[1], m[2])
				}
			}
		}
		for _, m := range namedTest.FindAllStringSubmatch(text, -1) {
			if !everywhere[m[1]] {
				t.Errorf("%s names %s, but no test has this name", name, m[1])
			}
		}
	}
	if commands < 30 {
		t.Errorf("only %d commands found", commands)
	}
}

// namedFlag matches a flag in a document: in backquotes, with an ellipsis for all flags with this prefix.
var namedFlag = regexp.MustCompile("`--([a-z][a-z0-9-]*)")

// TestFlagsInDocumentsExist checks that every flag in a document is in the list of settings with which the programs are
// tested, or in always: every program has those.
func TestFlagsInDocumentsExist(t *testing.T) {
	t.Parallel()
	settings, err := os.ReadFile(filepath.Join(root, "cmd", "internal", "cli", "settings.txt"))
	if err != nil {
		t.Fatal(err)
	}
	known := append(strings.Fields(string(settings)), "config", "version", "help")
	flags := 0
	for name, text := range documents(t) {
		if strings.HasPrefix(name, "docs/decisions/") || name == "CHANGELOG.md" {
			continue
		}
		for _, m := range namedFlag.FindAllStringSubmatch(text, -1) {
			flags++
			if !slices.ContainsFunc(known, func(flag string) bool {
				return flag == m[1] || strings.HasSuffix(m[1], "-") && strings.HasPrefix(flag, m[1])
			}) {
				t.Errorf("%s names --%s, which no program has", name, m[1])
			}
		}
	}
	if flags < 100 {
		t.Errorf("only %d flags found", flags)
	}
}

// selects reports whether a pattern of -run or -bench matches one of these functions.
func selects(flag, pattern string, tests map[string]bool) bool {
	for test := range tests {
		benchmark := strings.HasPrefix(test, "Benchmark")
		if strings.Contains(test, pattern) && benchmark == (flag == "bench") {
			return true
		}
	}
	return false
}

// testsOf returns the names of the tests, benchmarks and fuzz tests of a folder, and of all folders below it if below
// is set.
func testsOf(t *testing.T, folder string, below bool) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	err := filepath.WalkDir(folder, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != folder &&
			(!below || d.Name() == "node_modules" || d.Name() == "testdata" || d.Name() == ".git") {
			return fs.SkipDir
		}
		if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, decl := range f.Decls {
			if d, ok := decl.(*ast.FuncDecl); ok && d.Recv == nil {
				for _, prefix := range []string{"Test", "Benchmark", "Fuzz"} {
					if strings.HasPrefix(d.Name.Name, prefix) {
						all[d.Name.Name] = true
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
