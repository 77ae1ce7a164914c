package workspace_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/loopbus/loopbus/tools/workspace"
)

// deep makes so many directories, one in the other, below root, and returns the path of the innermost.
func deep(t *testing.T, root string, levels int) string {
	t.Helper()
	dir := filepath.Join(root, strings.Repeat("d/", levels))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// The way to a file takes as long as it has components: twice as many allocations for twice as many, where it took four
// times as many, and time by their cube.
func TestTheWayIsLinear(t *testing.T) {
	base := area(t)
	w := open(t, workspace.Options{Root: base + "/root"})
	const levels = 160
	work := func(path string) float64 {
		return testing.AllocsPerRun(1, func() {
			if _, err := w.Stat(t.Context(), path); err != nil {
				t.Fatal(err)
			}
		})
	}
	deep(t, base+"/root", 2*levels)
	// down, and up again to where few of the directories come by at the end of each way
	for name, path := range map[string]func(n int) string{
		"down": func(n int) string { return strings.Repeat("d/", n) },
		"down and up": func(n int) string {
			return strings.Repeat("d/", n/2) + strings.Repeat("../", n/2) + strings.Repeat("d/", n/2)
		},
		"to and fro": func(n int) string { return strings.Repeat("d/", n/2) + strings.Repeat("d/../", n/2) },
	} {
		half, whole := work(base+"/root/"+path(levels)), work(base+"/root/"+path(2*levels))
		if whole > 2.5*half {
			t.Errorf("%s: %.0f allocations for twice the components that took %.0f", name, whole, half)
		}
	}
}

// A path is as long as Linux lets it be, and nobody waits for one that was cancelled.
func TestTheWayHasAnEnd(t *testing.T) {
	t.Parallel()
	base := area(t)
	w := open(t, workspace.Options{Root: base + "/root"})
	if _, err := w.Stat(t.Context(), base+"/root/"+strings.Repeat("./", 2048)); !errors.Is(err, syscall.ENAMETOOLONG) {
		t.Errorf("a long path: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	ended := errors.New("it has ended")
	cancel(ended)
	_, open := w.Open(ctx, base+"/root/a")
	_, stat := w.Stat(ctx, base+"/root/a")
	_, write := w.OpenFile(ctx, base+"/root/a", os.O_RDWR, 0)
	_, _, files := w.FS(ctx, base+"/root/a")
	for what, err := range map[string]error{
		"Open": open, "Stat": stat, "OpenFile": write, "FS": files, "MkdirAll": w.MkdirAll(ctx, base+"/root/new", 0o755),
		"Exclusive": w.Exclusive(ctx, base+"/root/a", func() error { return nil }),
	} {
		if !errors.Is(err, ended) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// The directories above that are not open any more are opened again, and it is they that are looked into.
func TestUpFromDeepBelow(t *testing.T) {
	t.Parallel()
	base := area(t)
	w := open(t, workspace.Options{Root: base + "/root"})
	dir := deep(t, base+"/root", 100)
	if err := os.WriteFile(filepath.Join(base, "root", strings.Repeat("d/", 40), "here"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(strings.Repeat("../", 60)+"here", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir + "/" + strings.Repeat("../", 60) + "here", dir + "/link"} {
		if _, err := w.Stat(t.Context(), path); err != nil {
			t.Error(err)
		}
	}
	for _, path := range []string{dir + "/" + strings.Repeat("../", 59) + "here", dir + "/none/../../here"} {
		if _, err := w.Stat(t.Context(), path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%v", err)
		}
	}
	file, err := w.OpenFile(t.Context(), dir+"/link", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_ = file.Close()
}
