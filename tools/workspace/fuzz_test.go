package workspace_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/tools/workspace"
)

// Whatever a path is made of: what is read lies inside, what is written too, and nothing outside changes. The targets
// of three links are part of what is tried.
func FuzzConfinement(f *testing.F) {
	for _, seed := range [][4]string{
		{"a", "x", "y", "z"}, {"l0/../../outside/secret", "d", "..", "/"}, {"l0/l1/l2/secret", "..", "../..", "outside"},
		{"~/../outside", ".", "l0", "l1"}, {"@l2", "BASE/outside/secret", "BASE/root/../outside", "l1/secret"},
		{"BASE/root/d/../../outside/secret", "BASE/root", "BASE/", "BASE/rooty"},
		{"l0/new", "d/..", "d/./../..//outside", "BASE/outside/new"},
		{"d\u00a0/..//l1/", "/proc/self/root", "/proc/self/cwd/..", "\x00"},
	} {
		f.Add(seed[0], seed[1], seed[2], seed[3])
	}
	f.Fuzz(func(t *testing.T, path, target0, target1, target2 string) {
		base := sandbox(t)
		for i, target := range []string{target0, target1, target2} {
			target = strings.ReplaceAll(target, "BASE", base)
			_ = os.Symlink(target, filepath.Join(base, "root", "l"+string(rune('0'+i)))) // or there is none
		}
		w, err := workspace.Open(workspace.Options{Root: base + "/root", Home: base + "/root"})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = w.Close() }()
		full := w.Resolve(strings.ReplaceAll(path, "BASE", base))
		file, err := w.Open(t.Context(), full)
		if err == nil {
			checkInside(t, file, base)
		}
		if file, err := w.OpenFile(t.Context(), full, os.O_WRONLY|os.O_CREATE, 0o644); err == nil {
			_, _ = io.WriteString(file, "written")
			checkInside(t, file, base)
		}
		_ = w.MkdirAll(t.Context(), full, 0o755) // refused, or inside
		if entries, err := os.ReadDir(base + "/outside"); err != nil || len(entries) != 1 {
			t.Errorf("%q: outside are %v, %v", full, entries, err)
		}
		if data, err := os.ReadFile(base + "/outside/secret"); err != nil || string(data) != "secret" {
			t.Errorf("%q: the secret is %q, %v", full, data, err)
		}
		if entries, err := os.ReadDir(base); err != nil || len(entries) != 2 {
			t.Errorf("%q: beside the root are %v, %v", full, entries, err)
		}
	})
}

// sandbox makes base/root with a file and a directory, and base/outside with a secret.
func sandbox(t *testing.T) (base string) {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	err = errors.Join(err, os.MkdirAll(base+"/root/d", 0o755), os.MkdirAll(base+"/outside", 0o755),
		os.WriteFile(base+"/root/a", []byte("a"), 0o644), os.WriteFile(base+"/outside/secret", []byte("secret"), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	return base
}

// checkInside asks the system where an open file is.
func checkInside(t *testing.T, file *os.File, base string) {
	t.Helper()
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	inside := false
	err = filepath.WalkDir(base+"/root", func(path string, _ os.DirEntry, err error) error {
		if other, statErr := os.Lstat(path); statErr == nil && os.SameFile(info, other) {
			inside = true
		}
		return err
	})
	if err != nil || !inside {
		t.Errorf("%s is not inside: %v", file.Name(), err)
	}
}
