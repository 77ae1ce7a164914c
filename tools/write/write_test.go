package write_test

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools/internal/tooltest"
	"github.com/loopbus/loopbus/tools/write"
)

func TestWrite(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(rig *tooltest.Rig)
		path    string
		text    string // %ROOT is the root
		file    string // that has the content then, if it is no error
	}{
		{"through a link that leads nowhere yet", func(r *tooltest.Rig) { r.Link("l", "new") }, "l",
			"Successfully wrote 4 bytes to l", "new"},
		{"through an absolute link", func(r *tooltest.Rig) { r.Link("l", r.Path("d/new")); r.Put("d/x", "") }, "l",
			"Successfully wrote 4 bytes to l", "d/new"},
		{"into a linked directory", func(r *tooltest.Rig) { r.Put("d/x", ""); r.Link("l", "d") }, "l/e/f",
			"Successfully wrote 4 bytes to l/e/f", "d/e/f"},
		{"with dots", func(*tooltest.Rig) {}, "a/../b/./c", "Successfully wrote 4 bytes to a/../b/./c", "b/c"},
		{"below a file", func(r *tooltest.Rig) { r.Put("f", "old") }, "f/g", "EEXIST: file already exists, mkdir '%ROOT/f'",
			""},
		{"far below a file", func(r *tooltest.Rig) { r.Put("f", "old") }, "f/g/h",
			"ENOTDIR: not a directory, mkdir '%ROOT/f/g'", ""},
		{"a link to itself", func(r *tooltest.Rig) { r.Link("l", "l") }, "l",
			"ELOOP: too many symbolic links encountered, open '%ROOT/l'", ""},
		{"below a link to itself", func(r *tooltest.Rig) { r.Link("l", "l") }, "l/f",
			"ELOOP: too many symbolic links encountered, mkdir '%ROOT/l'", ""},
		{"the root", func(*tooltest.Rig) {}, ".", "EISDIR: illegal operation on a directory, open '%ROOT'", ""},
		{"a name that is too long", func(*tooltest.Rig) {}, strings.Repeat("x", 300),
			"ENAMETOOLONG: name too long, open '%ROOT/" + strings.Repeat("x", 300) + "'", ""},
		{"a null byte", func(*tooltest.Rig) {}, "a\x00b",
			`The argument 'path' must be a string, Uint8Array, or URL without null bytes. Received '%ROOT/a\x00b'`, ""},
		{"outside", func(*tooltest.Rig) {}, "../outside/new",
			"Access denied: %ROOT/../outside/new is outside %ROOT, and only files inside may be used", ""},
		{"a link that leads out", func(r *tooltest.Rig) { r.Link("l", "../outside/secret") }, "l",
			"Access denied: %ROOT/l is outside %ROOT, and only files inside may be used", ""},
		{"a link to a new file outside", func(r *tooltest.Rig) { r.Link("l", "../outside/new") }, "l",
			"Access denied: %ROOT/l is outside %ROOT, and only files inside may be used", ""},
		{"a directory in a linked one outside", func(r *tooltest.Rig) { r.Link("l", "../outside") }, "l/d/new",
			"Access denied: %ROOT/l/d/new is outside %ROOT, and only files inside may be used", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			rig := tooltest.New(t)
			c.prepare(rig)
			text, isError := rig.Text(write.New(rig.Workspace), map[string]string{"path": c.path, "content": "new\n"})
			want := strings.ReplaceAll(strings.ReplaceAll(c.text, "%ROOT/..", strings.TrimSuffix(rig.Root, "/root")), "%ROOT",
				rig.Root)
			if text != want || isError != (c.file == "") {
				t.Errorf("%v %q, want %q", isError, text, want)
			}
			if c.file != "" && rig.Get(c.file) != "new\n" {
				t.Errorf("the file has %q", rig.Get(c.file))
			}
			if entries, err := os.ReadDir(rig.Path("../outside")); err != nil || len(entries) != 1 ||
				rig.Get("../outside/secret") != "secret\n" {
				t.Errorf("outside: %v, %v", entries, err)
			}
		})
	}
}

// A file is written in place: mode and hard links stay, and nothing of a longer content is left.
func TestModeAndLinksStay(t *testing.T) {
	rig := tooltest.New(t)
	rig.Put("f", strings.Repeat("long ", 1000))
	if err := os.Chmod(rig.Path("f"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(rig.Path("f"), rig.Path("hard")); err != nil {
		t.Fatal(err)
	}
	rig.Text(write.New(rig.Workspace), `{"path":"f","content":"short"}`)
	if info, err := os.Stat(rig.Path("f")); err != nil || info.Mode().Perm() != 0o640 || rig.Get("hard") != "short" {
		t.Errorf("%v, %v, %q", info.Mode(), err, rig.Get("hard"))
	}
}

// A pipe that nobody reads would block its writer for ever.
func TestPipesAreRefused(t *testing.T) {
	rig := tooltest.New(t)
	if err := syscall.Mkfifo(rig.Path("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, isError := rig.Text(write.New(rig.Workspace), `{"path":"fifo","content":"x"}`); !isError ||
		text != "Not a regular file: "+rig.Path("fifo") {
		t.Errorf("%v %q", isError, text)
	}
}

// Calls at once leave what one of them wrote, not a mixture.
func TestWritesAtOnce(t *testing.T) {
	rig := tooltest.New(t)
	tool := write.New(rig.Workspace)
	var running sync.WaitGroup
	for n := range 20 {
		running.Go(func() {
			content := strings.Repeat(strconv.Itoa(n%10), 1000*(n+1))
			if text, isError := rig.Text(tool, map[string]string{"path": "d/f", "content": content}); isError {
				t.Error(text)
			}
		})
	}
	running.Wait()
	got := rig.Get("d/f")
	if n := len(got)/1000 - 1; n < 0 || got != strings.Repeat(strconv.Itoa(n%10), 1000*(n+1)) {
		t.Errorf("%d bytes", len(got))
	}
}

// Carried out twice, a call has the same outcome: it is announced so.
func TestTwiceIsOnce(t *testing.T) {
	rig := tooltest.New(t)
	tool := write.New(rig.Workspace)
	args := `{"file_path":"d/f","content":"x"}`
	first, _ := rig.Text(tool, args)
	second, _ := rig.Text(tool, args)
	if first != second || rig.Get("d/f") != "x" || tool.Effect != schemas.EffectIdempotent {
		t.Errorf("%q, %q, %s", first, second, tool.Effect)
	}
}
