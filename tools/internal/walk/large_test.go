package walk_test

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/loopbus/loopbus/tools/internal/walk"
)

// large is a directory with count files, whose long names are made when they are read. It counts how often it is read.
type large struct {
	count int
	reads *int
}

func (l large) Open(name string) (fs.File, error) {
	if name != "." {
		return nil, fs.ErrNotExist
	}
	*l.reads++
	return &largeDir{left: l.count}, nil
}

type largeDir struct {
	fs.File
	left int
}

func (d *largeDir) Close() error { return nil }

func (d *largeDir) ReadDir(n int) (list []fs.DirEntry, err error) {
	for ; d.left > 0 && (n <= 0 || len(list) < n); d.left-- {
		list = append(list, longName(fmt.Sprintf("%06d", d.left)+strings.Repeat("x", 16<<10)))
	}
	if len(list) == 0 && n > 0 {
		err = io.EOF
	}
	return list, err
}

type longName string

func (n longName) Name() string             { return string(n) }
func (longName) IsDir() bool                { return false }
func (longName) Type() fs.FileMode          { return 0 }
func (longName) Info() (fs.FileInfo, error) { return nil, fs.ErrInvalid }

// What a walk keeps of an entry is little more than its name, although the system knows more of the file.
func TestEntriesAreSmall(t *testing.T) { // not parallel: it measures the heap
	const count, most = 4000, 200
	dir := t.TempDir()
	for i := range count {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("file-%06d", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	before, kept := heap(), int64(0)
	err = walk.Run(t.Context(), walk.Options{FS: root.FS(), Start: ".", Visit: func(string, fs.DirEntry) error {
		kept = heap() - before
		return fs.SkipAll
	}})
	if err != nil || kept > count*most {
		t.Errorf("%d bytes are kept of each entry, want at most %d: %v", kept/count, most, err)
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// Ignore files with more lines together than a walk has memory for are left out, the nearest first: each line may have
// two bytes, and its rule takes a hundred times as much.
func TestManyRules(t *testing.T) {
	t.Parallel()
	const most = 1 << 15
	rules := func(lines int) string { return strings.Repeat("b\n", lines-1) + "a\n" }
	for _, c := range []struct {
		above, below int
		want         string
	}{
		{most, 0, "d"},
		{most + 1, 0, "a d d/a"},
		{most / 2, most / 2, "d"},
		{1, most, "d"},
	} {
		files := tree(".gitignore: "+rules(c.above), "a", "d/a")
		if c.below > 0 {
			files["d/.gitignore"] = &fstest.MapFile{Data: []byte("!a\n" + rules(c.below))}
		}
		var got []string
		err := walk.Run(t.Context(), walk.Options{FS: files, Start: ".", Visit: func(path string, _ fs.DirEntry) error {
			if !strings.HasSuffix(path, ".gitignore") {
				got = append(got, path)
			}
			return nil
		}})
		if have := strings.Join(got, " "); err != nil || have != c.want {
			t.Errorf("%d lines above %d: %s, want %s: %v", c.above, c.below, have, c.want, err)
		}
	}
}

// A directory that is larger than the memory for it is visited completely, in order, and read a few times.
func TestLargeDirectory(t *testing.T) { // not parallel: it measures the heap
	const count, most = 6000, 80 << 20
	before, last, visited, reads := heap(), "", 0, 0
	err := walk.Run(t.Context(), walk.Options{FS: large{count, &reads}, Start: ".",
		Visit: func(path string, _ fs.DirEntry) error {
			if visited++; visited%2000 == 1 {
				if kept := heap() - before; kept > most {
					t.Errorf("%d bytes are kept of %d names", kept, count)
				}
			}
			if path <= last {
				t.Errorf("%.10s after %.10s", path, last)
			}
			last = path
			return nil
		}})
	if err != nil || visited != count || reads > 10 {
		t.Errorf("%v, %d visited, %d times read", err, visited, reads)
	}
}

// What has a path that no program can use is not searched.
func TestPathsHaveAnEnd(t *testing.T) {
	t.Parallel()
	name := strings.Repeat("d", 255)
	files := fstest.MapFS{strings.Repeat(name+"/", 30) + "f": &fstest.MapFile{}}
	if got := walked(t, walk.Options{FS: files, Start: name}); len(got) != 16 {
		t.Errorf("%d directories", len(got))
	}
}

// Rules that take long for each path do not keep a walk from its end.
func TestCostlyRules(t *testing.T) {
	t.Parallel()
	files := tree(".gitignore: "+strings.Repeat("**/*"+strings.Repeat("[!x]", 120)+"q\n", 2000)+"!a*\n!.gitignore",
		strings.Repeat(strings.Repeat("a", 255)+"/", 15)+"f")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	begun := time.Now()
	err := walk.Run(ctx, walk.Options{FS: files, Start: ".", Visit: func(string, fs.DirEntry) error { return nil }})
	if err == nil || time.Since(begun) > 2*time.Second {
		t.Errorf("%v after %s", err, time.Since(begun))
	}
}
