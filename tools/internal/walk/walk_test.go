package walk_test

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/tools/internal/ignore"
	"github.com/loopbus/loopbus/tools/internal/walk"
)

// tree returns a file system with the files, each "name" or "name: content".
func tree(files ...string) fstest.MapFS {
	m := fstest.MapFS{}
	for _, f := range files {
		name, content, _ := strings.Cut(f, ": ")
		file := &fstest.MapFile{Data: []byte(content), Mode: 0o644}
		if dir, ok := strings.CutSuffix(name, "/"); ok {
			name, file.Mode = dir, fs.ModeDir|0o755
		}
		m[name] = file
	}
	return m
}

func walked(t *testing.T, o walk.Options) []string {
	t.Helper()
	var got []string
	o.Visit = func(path string, e fs.DirEntry) error {
		if e.IsDir() {
			path += "/"
		}
		got = append(got, path)
		return nil
	}
	if err := walk.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestIgnoreFiles(t *testing.T) {
	for _, c := range []struct {
		name  string
		files fstest.MapFS
		start string
		want  string // ignore files and .git left out
	}{
		{"in order of names, a directory before what is in it", tree("b", "a/z", "a/b/c", "a.x"), ".",
			"a/ a/b/ a/b/c a/z a.x b"},
		{"a directory that is ignored is not entered", tree(".gitignore: d/\n!d/keep", "d/keep", "e/d/x", "f"), ".", "e/ f"},
		{"nearer files decide", tree(".gitignore: *.log\n!x.log", "d/.gitignore: x.log\n!a.log", "d/a.log", "d/x.log",
			"b.log", "x.log"), ".", "d/ d/a.log x.log"},
		{".ignore before .gitignore, however far", tree(".ignore: !a.log\nb", "d/.gitignore: a.log\n!b\nc", "d/a.log", "d/b",
			"d/c"), ".", "d/ d/a.log"},
		{".git/info/exclude after both", tree(".git/info/exclude: a\nb\nc", ".gitignore: !b", ".ignore: !c", "a", "b", "c",
			"d/a"), ".", "b c d/"},
		{"above the start", tree(".gitignore: *.log\n/d/x", "d/a.log", "d/x", "d/y"), "d", "y"},
		{"the start is not asked about", tree(".gitignore: d/", "d/a"), "d", "a"},
		{"unless its content is named", tree(".gitignore: d/*", "d/a"), "d", ""},
		{"git's files end at a repository", tree(".gitignore: a", ".ignore: b", "r/.git/", "r/a", "r/b", "r/c"), ".",
			"r/ r/a r/c"},
		{"and above the start", tree(".gitignore: a", ".ignore: b", "r/.git/", "r/d/a", "r/d/b", "r/d/c"), "r/d", "a c"},
		{"hidden files are files", tree(".env", ".h/x"), ".", ".env .h/ .h/x"},
		{"ignore files that are directories say nothing", tree(".gitignore/a", "b"), ".", ".gitignore/a b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := slices.DeleteFunc(walked(t, walk.Options{FS: c.files, Start: c.start}), func(path string) bool {
				name := strings.Split(path, "/")
				return slices.Contains(name, ".git") || strings.HasSuffix(path, "ignore") || strings.HasSuffix(path, "ignore/")
			})
			if d := cmp.Diff(c.want, strings.Join(got, " ")); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestOverride(t *testing.T) {
	files := tree("d/.gitignore: a\nb", "d/a", "d/b", "d/c", "d/e/a", "d/f/x")
	got := walked(t, walk.Options{FS: files, Start: "d", Override: func(path string, isDir bool) ignore.Verdict {
		switch {
		case path == "a":
			return ignore.Kept
		case path == "c" || path == "e" && isDir:
			return ignore.Ignored
		}
		return ignore.Silent
	}})
	if d := cmp.Diff([]string{".gitignore", "a", "f/", "f/x"}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestEnds(t *testing.T) {
	files := tree("a", "b/c", "d")
	boom := errors.New("boom")
	for name, want := range map[string]error{"skip": nil, "boom": boom, "abort": context.Canceled} {
		ctx, cancel := context.WithCancel(t.Context())
		visited := 0
		err := walk.Run(ctx, walk.Options{FS: files, Start: ".", Visit: func(path string, _ fs.DirEntry) error {
			visited++
			switch {
			case path == "b/c" && name == "skip":
				return fs.SkipAll
			case path == "b/c" && name == "boom":
				return boom
			case path == "b/c":
				cancel()
			}
			return nil
		}})
		cancel()
		if !errors.Is(err, want) || want == nil && err != nil || visited != 3 {
			t.Errorf("%s: %v after %d", name, err, visited)
		}
	}
	if err := walk.Run(t.Context(), walk.Options{FS: files, Start: "none"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a start that is not there: %v", err)
	}
}

// The rules of all directories above are in memory together: what would be too much with them says nothing.
func TestIgnoreFilesAreBoundedTogether(t *testing.T) {
	comment := "\n#" + strings.Repeat("x", 600<<10)
	files := tree(".gitignore: a"+comment, "a", "b", "d/.gitignore: b"+comment, "d/a", "d/b", "d/e/.gitignore: c", "d/e/c",
		"f/.gitignore: b"+comment, "f/b")
	want := []string{".gitignore", "b", "d/", "d/.gitignore", "d/b", "d/e/", "d/e/.gitignore", "f/", "f/.gitignore", "f/b"}
	if diff := cmp.Diff(want, walked(t, walk.Options{FS: files, Start: "."})); diff != "" {
		t.Error(diff)
	}
}

// Each path is followed from its beginning: what is very deep is not walked.
func TestDeepDirectoriesAreNotEntered(t *testing.T) {
	up := strings.Repeat("d/", 255)
	got := walked(t, walk.Options{FS: tree(up+"d/here", up+"d/d/there"), Start: "."})
	if n := len(got); n != 258 || got[n-1] != up+"d/here" {
		t.Errorf("%d paths, the last is %s", n, got[n-1])
	}
}
