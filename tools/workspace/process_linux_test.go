package workspace_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/loopbus/loopbus/tools/workspace"
)

// What the kernel shows of processes has the environment of the one that runs the tools. It is denied, also by a link.
func TestProcessesAreDenied(t *testing.T) {
	t.Parallel()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink("/proc/self/environ", link); err != nil {
		t.Fatal(err)
	}
	w := open(t, workspace.Options{Root: "/"})
	for path, want := range map[string]bool{"/proc/self/environ": true, "/proc/1/environ": true, link: true,
		"/proc/thread-self/environ": true, "/proc/self/root/proc/self/environ": true, "/proc/version": false,
		"/proc": false} {
		_, err := w.Stat(t.Context(), path)
		if errors.As(err, new(*workspace.DeniedError)) != want || !want && err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}
