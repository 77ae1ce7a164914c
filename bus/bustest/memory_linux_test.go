package bustest

import (
	"os"
	"path/filepath"
	"testing"
)

// TestSweep is not parallel: a process that another test starts inherits the lock, and holds it between fork and exec.
func TestSweep(t *testing.T) {
	parent := t.TempDir()
	used, lock, err := lockedDir(parent)
	if err != nil {
		t.Fatal(err)
	}
	left, free, err := lockedDir(parent)
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(parent, "other")
	for _, file := range []string{filepath.Join(used, "a"), filepath.Join(left, "a"), other} {
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	exist := func(paths ...string) (n int) {
		for _, p := range paths {
			if _, err := os.Stat(p); err == nil {
				n++
			}
		}
		return n
	}
	sweep(parent)
	if exist(used, other) != 2 || exist(left) != 0 {
		t.Errorf("deleted a directory in use: %v, a foreign directory: %v; kept an abandoned one: %v",
			exist(used) == 0, exist(other) == 0, exist(left) == 1)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	sweep(parent)
	if exist(used) != 0 {
		t.Error("what nobody uses any more is left")
	}
}

func TestRoom(t *testing.T) {
	t.Parallel()
	if dir := t.TempDir(); !hasRoom(dir, 1) || hasRoom(dir, 1<<62) || hasRoom(filepath.Join(dir, "none"), 1) {
		t.Error("room is where there is none, or the other way round")
	}
}
