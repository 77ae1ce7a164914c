package workspace_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/loopbus/loopbus/tools/workspace"
)

// area lays out base/root, base/home and base/outside, each with a file of its own name.
func area(t *testing.T) (base string) {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"root/d", "home", "outside"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"root/a", "root/d/b", "home/h", "outside/secret"} {
		if err := os.WriteFile(filepath.Join(base, file), []byte(file), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{
		"rel": "d/b", "abs": base + "/root/d", "out": "../outside/secret", "outabs": base + "/outside", "up": "..",
		"back": "../root/a", "loop": "loop", "chain": "abs/../rel", "broken": "none", "d/up": "../a", "etc": "/etc",
		"unclean": base + "/outside/../root/a", "absfile": base + "/root/d/b",
	} {
		if err := os.Symlink(target, filepath.Join(base, "root", link)); err != nil {
			t.Fatal(err)
		}
	}
	return base
}

func open(t *testing.T, o workspace.Options) *workspace.Workspace {
	t.Helper()
	w, err := workspace.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	return w
}

func TestPathsAreConfined(t *testing.T) {
	base := area(t)
	w := open(t, workspace.Options{Root: base + "/root", Home: base + "/home"})
	const outside = "outside"
	for _, c := range []struct {
		path string
		want string // content, "outside", "directory", or the error
	}{
		{"a", "root/a"}, {"@a", "root/a"}, {"./d/../a", "root/a"}, {"x/../a", "root/a"}, {base + "/root/a", "root/a"},
		{"", "directory"}, {".", "directory"}, {base + "/root", "directory"}, {base + "/root/", "directory"},
		{base + "/root//d/./b", "root/d/b"}, {base + "/root/d/..//a", "root/a"}, {base + "/outside/../root/a", "root/a"},
		{base + "/root/../root/a", "root/a"},
		{"rel", "root/d/b"}, {"abs/b", "root/d/b"}, {"chain", "root/d/b"}, {"d/up", "root/a"}, {"back", "root/a"},
		{"abs", "directory"}, {"unclean", "root/a"}, {"absfile", "root/d/b"},
		{base + "/root/absfile/", syscall.ENOTDIR.Error()},
		{"none", syscall.ENOENT.Error()}, {"broken", syscall.ENOENT.Error()}, {"a/b", syscall.ENOTDIR.Error()},
		{base + "/root/a/", syscall.ENOTDIR.Error()}, {base + "/root/a/../a", syscall.ENOTDIR.Error()},
		{base + "/root/x/../a", syscall.ENOENT.Error()}, {"loop", syscall.ELOOP.Error()},
		{"a\x00b", syscall.EINVAL.Error()}, {strings.Repeat("x", 300), syscall.ENAMETOOLONG.Error()},
		{"..", outside}, {"../outside/secret", outside}, {"../none", outside}, {"out", outside}, {"outabs/secret", outside},
		{"up", outside}, {"up/outside/secret", outside}, {"etc/passwd", outside}, {"/etc/passwd", outside}, {"/", outside},
		{base + "/rootless", outside}, {"~", outside}, {"~/h", outside}, {"d/../../outside/secret", outside},
		{base + "/root/d/../../outside/secret", outside}, {base + "/root/..", outside},
	} {
		t.Run(c.path, func(t *testing.T) {
			if got := outcome(t.Context(), w, c.path); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func outcome(ctx context.Context, w *workspace.Workspace, path string) string {
	file, err := w.Open(ctx, w.Resolve(path))
	var outside *workspace.DeniedError
	var pathErr *fs.PathError
	switch {
	case errors.As(err, &outside):
		return "outside"
	case errors.As(err, &pathErr):
		return pathErr.Err.Error()
	case err != nil:
		return err.Error()
	}
	defer func() { _ = file.Close() }()
	if info, err := w.Stat(ctx, w.Resolve(path)); err == nil && info.IsDir() {
		return "directory"
	}
	data, err := io.ReadAll(file)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

func TestFurtherDirectoriesAndFiles(t *testing.T) {
	base := area(t)
	for name, target := range map[string]string{"spill-1": "", "spill-2": base + "/outside/secret", "other": ""} {
		path := filepath.Join(base, "outside", name)
		err := os.WriteFile(path, []byte(name), 0o644)
		if target != "" {
			_ = os.Remove(path)
			err = os.Symlink(target, path)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	w := open(t, workspace.Options{
		Root: base + "/root", Home: base + "/home", Also: []string{base + "/home"},
		Files: []string{base + "/outside/spill-[0-9]"},
	})
	for path, want := range map[string]string{
		"~/h": "home/h", "~": "directory", base + "/outside/spill-1": "spill-1", base + "/outside/spill-2": "outside",
		base + "/outside/other": "outside", base + "/outside": "outside", base + "/outside/../outside/spill-1": "spill-1",
		base + "/outside/spill-9": syscall.ENOENT.Error(),
	} {
		if got := outcome(t.Context(), w, path); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}

// A root is known by the name it was given and by its real one.
func TestRootThatIsALink(t *testing.T) {
	base := area(t)
	if err := os.Symlink(base+"/root", base+"/link"); err != nil {
		t.Fatal(err)
	}
	w := open(t, workspace.Options{Root: base + "/link"})
	if w.Root() != base+"/root" || w.Dir() != base+"/root" {
		t.Errorf("root %s, dir %s", w.Root(), w.Dir())
	}
	for _, path := range []string{"a", base + "/link/a", base + "/root/a", base + "/link/d/../a"} {
		if got := outcome(t.Context(), w, path); got != "root/a" {
			t.Errorf("%s: got %q", path, got)
		}
	}
}

// A link put in place of a file between the check and the use does not lead out: the file is opened below the root.
func TestSwappedLinkDoesNotLeadOut(t *testing.T) {
	base := area(t)
	w := open(t, workspace.Options{Root: base + "/root"})
	file, link := base+"/root/swap", base+"/root/swap.link"
	stop := make(chan struct{})
	swapping := make(chan error, 1)
	go func() {
		for {
			for _, source := range []func() error{
				func() error { return os.WriteFile(link, []byte("inside"), 0o644) },
				func() error { return os.Symlink("../outside/secret", link) },
			} {
				if err := errors.Join(source(), os.Rename(link, file)); err != nil {
					swapping <- err
					return
				}
			}
			select {
			case <-stop:
				swapping <- nil
				return
			default:
			}
		}
	}()
	for range 2000 {
		if got := outcome(t.Context(), w, "swap"); strings.Contains(got, "secret") {
			t.Fatalf("read %q", got)
		}
	}
	close(stop)
	if err := <-swapping; err != nil {
		t.Fatal(err)
	}
}

func TestOpenReportsAllMistakes(t *testing.T) {
	base := area(t)
	_, err := workspace.Open(workspace.Options{Root: base + "/no1", Also: []string{base + "/no2"},
		Files: []string{"/x/[", base + "/no3/*"}})
	for _, want := range []string{"no1", "no2", "[", "no3"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not name %s", err, want)
		}
	}
}

// A root of / is a workspace without bounds.
func TestRootOfEverything(t *testing.T) {
	base := area(t)
	w := open(t, workspace.Options{Root: "/", Dir: base + "/root"})
	for path, want := range map[string]string{"a": "root/a", "out": "outside/secret", "/..": "directory",
		"/../" + base + "/root/a": "root/a"} {
		if got := outcome(t.Context(), w, path); got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}
