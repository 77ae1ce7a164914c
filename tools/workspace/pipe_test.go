//go:build unix

package workspace_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/loopbus/loopbus/tools/workspace"
)

// A command may put a pipe where a file was, after somebody has looked. Nobody waits for its other end.
func TestAPipeIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe := filepath.Join(dir, "AGENTS.md")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	held, err := os.OpenFile(pipe, os.O_RDWR, 0) // a writer that says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	alone := filepath.Join(dir, "alone")
	if err := syscall.Mkfifo(alone, 0o600); err != nil {
		t.Fatal(err)
	}
	w, err := workspace.Open(workspace.Options{Root: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	files, _, err := w.FS(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for what, use := range map[string]func(name string) error{
		"open":        func(name string) error { return opened(w.Open(t.Context(), filepath.Join(dir, name))) },
		"open a file": func(name string) error { _, err := files.Open(name); return err },
		"read a file": func(name string) error { _, err := fs.ReadFile(files, name); return err },
		"list":        func(name string) error { _, err := fs.ReadDir(files, name); return err },
		"open to edit": func(name string) error {
			return opened(w.OpenFile(t.Context(), filepath.Join(dir, name), os.O_RDWR, 0))
		},
	} {
		for _, name := range []string{"AGENTS.md", "alone"} {
			done := make(chan error, 1)
			go func() { done <- use(name) }()
			select {
			case err := <-done:
				if !errors.Is(err, workspace.ErrIrregular) {
					t.Errorf("%s %s: %v", what, name, err)
				}
			case <-time.After(20 * time.Second):
				t.Fatalf("%s %s waits", what, name)
			}
		}
	}
	if file, err := w.OpenFile(t.Context(), alone, os.O_WRONLY|os.O_CREATE, 0o600); err == nil {
		file.Close()
		t.Error("a pipe is written")
	}
}

func opened(file *os.File, err error) error {
	if err == nil {
		file.Close()
	}
	return err
}
