package workspace_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/tools/internal/tooltest"
	"github.com/loopbus/loopbus/tools/workspace"
)

func TestWritingIsConfined(t *testing.T) {
	base := area(t)
	if err := os.WriteFile(base+"/outside/spill-1", []byte("spill"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../outside/new", base+"/root/newout"); err != nil {
		t.Fatal(err)
	}
	w := open(t, workspace.Options{Root: base + "/root", Home: base + "/home",
		Files: []string{base + "/outside/spill-[0-9]"}})
	before := tree(t, base+"/outside") + tree(t, base+"/home")
	for _, path := range []string{
		"../outside/new", "../outside/secret", "../new", "out", "outabs/new", "outabs/secret", "up/new", "up/outside/secret",
		"newout",
		"~/h", "~/new", base + "/outside/secret", base + "/outside/new", base + "/outside/spill-1", base + "/rootnew", "/",
		"/new",
		"d/../../outside/new", base + "/root/../outside/new", base + "/root/d/../../outside/new",
	} {
		full := w.Resolve(path)
		file, err := w.OpenFile(t.Context(), full, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
		if !errors.As(err, new(*workspace.DeniedError)) {
			t.Errorf("%s: opened %v, %v", path, file, err)
		}
		err = w.MkdirAll(t.Context(), full+"/d/e", 0o755)
		if !errors.As(err, new(*workspace.DeniedError)) && path != "out" {
			t.Errorf("%s: made a directory: %v", path, err)
		}
		if err := w.Exclusive(t.Context(), full, func() error { return nil }); !errors.As(err, new(*workspace.DeniedError)) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if after := tree(t, base+"/outside") + tree(t, base+"/home"); after != before {
		t.Errorf("outside was\n%s, is\n%s", before, after)
	}
}

func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			data, readErr := os.ReadFile(path)
			err = readErr
			path += " " + string(data)
		}
		b.WriteString(path + "\n")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestMkdirAll(t *testing.T) {
	base := area(t)
	w := open(t, workspace.Options{Root: base + "/root"})
	for path, want := range map[string]error{
		"d": nil, "n/m": nil, "abs/n/m": nil, "broken/x": nil, ".": nil, "a": fs.ErrExist, "d/b": fs.ErrExist, "up": nil,
	} {
		err := w.MkdirAll(t.Context(), w.Resolve(path), 0o755)
		if path == "up" {
			want = nil
			if !errors.As(err, new(*workspace.DeniedError)) {
				t.Errorf("%s: %v", path, err)
			}
			continue
		}
		if !errors.Is(err, want) {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if info, err := os.Stat(filepath.Join(base, "root", path)); want == nil && (err != nil || !info.IsDir()) {
			t.Errorf("%s was not made: %v", path, err)
		}
	}
}

// The files that FS opens are those of the workspace, and links in it lead nowhere else.
func TestFS(t *testing.T) {
	base := area(t)
	w := open(t, workspace.Options{Root: base + "/root"})
	files, name, err := w.FS(t.Context(), w.Resolve("abs"))
	if err != nil || name != "d" {
		t.Fatalf("%s, %v", name, err)
	}
	if data, err := fs.ReadFile(files, name+"/b"); err != nil || string(data) != "root/d/b" {
		t.Errorf("%q, %v", data, err)
	}
	for _, name := range []string{"out", "outabs/secret", "up/outside/secret", "etc/passwd", "../outside/secret",
		"/etc/passwd"} {
		if data, err := fs.ReadFile(files, name); err == nil {
			t.Errorf("%s: read %q", name, data)
		}
	}
	if _, _, err := w.FS(t.Context(), base+"/outside"); !errors.As(err, new(*workspace.DeniedError)) {
		t.Errorf("outside: %v", err)
	}
}

// A link that is put in the place of a directory between the check and the use does not lead a writer out.
func TestSwappedDirectoryDoesNotLeadOut(t *testing.T) {
	rig := tooltest.New(t)
	rig.Put("swap/f", "")
	before := tree(t, rig.Path("../outside"))
	stop := rig.SwapWithLink("swap", "../outside")
	made := 0
	for range 10_000 {
		if err := rig.Workspace.MkdirAll(t.Context(), rig.Path("swap/d"), 0o755); err == nil {
			made++
		}
		for _, name := range []string{"swap/new", "swap/secret"} {
			const flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
			if file, err := rig.Workspace.OpenFile(t.Context(), rig.Path(name), flags, 0o644); err == nil {
				made++
				if err := file.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	stop()
	t.Logf("%d got through", made)
	if after := tree(t, rig.Path("../outside")); after != before {
		t.Errorf("outside was\n%s, is\n%s", before, after)
	}
}
