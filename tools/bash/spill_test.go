package bash_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools/bash"
	"github.com/loopbus/loopbus/tools/internal/tooltest"
)

func TestSpillThatCannotBeWritten(t *testing.T) {
	tool, _ := setUp(t, bash.Options{TempDir: "/no/such/dir"})
	got, isError := run(t, tool, `seq 1 3000`)
	if isError || !strings.Contains(got, "[Showing lines 1002-3001 of 3001. The full output could not be kept: open "+
		"/no/such/dir/bash-") {
		t.Errorf("%v %q", isError, got[len(got)-200:])
	}
}

func TestSpillPattern(t *testing.T) {
	dir := t.TempDir()
	tool, _ := setUp(t, bash.Options{TempDir: dir})
	got, _ := run(t, tool, `seq 1 3000`)
	files, err := filepath.Glob(bash.SpillPattern(dir))
	if err != nil || len(files) != 1 || !strings.HasSuffix(got, "Full output: "+files[0]+"]") {
		t.Errorf("%v, %v, %q", files, err, got[len(got)-200:])
	}
	if info, err := os.Stat(files[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// put makes a file that was last written so long ago.
func put(t *testing.T, dir, name string, size int, age time.Duration) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, time.Time{}, time.Now().Add(-age)); err != nil {
		t.Fatal(err)
	}
	return name
}

// Spills are removed when they are old, by the next command; other files are not touched.
func TestOldSpillsAreRemoved(t *testing.T) {
	dir := t.TempDir()
	tool, _ := setUp(t, bash.Options{TempDir: dir})
	put(t, dir, "bash-00000000000000a1.log", 10, 25*time.Hour)
	want := []string{
		put(t, dir, "bash-00000000000000a2.log", 10, 23*time.Hour),
		put(t, dir, "bash-other.log", 10, 48*time.Hour),
		put(t, dir, "precious", 10, 48*time.Hour),
	}
	if got, _ := run(t, tool, `seq 1 2`); got != "1\n2\n" {
		t.Errorf("got %q", got)
	}
	if d := cmp.Diff(want, names(t, dir)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// The oldest spills make room for new ones.
func TestSpillsMakeRoom(t *testing.T) {
	dir := t.TempDir()
	tool, _ := setUp(t, bash.Options{TempDir: dir, SpillBytes: 20_000, SpillTotal: 40_000})
	put(t, dir, "bash-00000000000000a1.log", 10_000, 30*time.Minute)
	want := []string{
		put(t, dir, "bash-00000000000000a2.log", 10_000, 20*time.Minute),
		put(t, dir, "bash-00000000000000a3.log", 10_000, 10*time.Minute),
		put(t, dir, "precious", 100_000, time.Hour),
	}
	got, _ := run(t, tool, `seq 1 10000`)
	if d := cmp.Diff(append([]string{"new"}, want...), renamed(names(t, dir), want)); d != "" {
		t.Errorf("after a long output (-want +got):\n%s", d)
	}
	if !strings.Contains(got, "of 10001. First 19.5KB of the output: "+dir) {
		t.Errorf("got %q", got[len(got)-200:])
	}
	run(t, tool, `seq 1 10000`)
	if d := cmp.Diff(append([]string{"new", "new"}, want[2:]...), renamed(names(t, dir), want)); d != "" {
		t.Errorf("after another one (-want +got):\n%s", d)
	}
}

// There are no more than a sweep can look at.
func TestSpillsAreCounted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tool, _ := setUp(t, bash.Options{TempDir: dir})
	for n := range 1200 {
		put(t, dir, fmt.Sprintf("bash-%016x.log", n), 1, time.Duration(2000-n)*time.Second)
	}
	run(t, tool, `seq 1 10000`)
	left := names(t, dir)
	if len(left) != 1000 || slices.Contains(left, "bash-00000000000000c8.log") ||
		!slices.Contains(left, "bash-00000000000000c9.log") {
		t.Errorf("%d are left, the first is %s", len(left), left[0])
	}
}

// Spills are removed also while no command runs.
func TestTidy(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "bash-00000000000000a1.log", 10, 25*time.Hour)
	want := []string{put(t, dir, "bash-00000000000000a2.log", 10, 23*time.Hour)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); bash.Tidy(ctx, bash.Options{TempDir: dir}) }()
	eventually(t, time.Minute, "the old one is removed", func() bool { return len(names(t, dir)) == 1 })
	cancel()
	within(t, ended)
	if d := cmp.Diff(want, names(t, dir)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// The default directory is the user's own, and somebody who was there before gets nothing.
func TestSpillDir(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	own := filepath.Join(temp, fmt.Sprintf("loopbus-output-%d", os.Getuid()))
	rig := tooltest.New(t)
	tool := bash.New(bash.Options{Workspace: rig.Workspace, Environ: []string{"PATH=" + os.Getenv("PATH")}})
	got, _ := run(t, tool, `seq 1 3000`)
	if files, err := filepath.Glob(bash.SpillPattern(own)); err != nil || len(files) != 1 ||
		!strings.HasSuffix(got, "Full output: "+files[0]+"]") {
		t.Errorf("%v, %v, %q", files, err, got[len(got)-200:])
	}
	if info, err := os.Stat(own); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	for what, trap := range map[string]func() error{
		"a link":            func() error { return os.Symlink(t.TempDir(), own) },
		"a file":            func() error { return os.WriteFile(own, nil, 0o600) },
		"written by others": func() error { return errors.Join(os.Mkdir(own, 0o700), os.Chmod(own, 0o777)) },
	} {
		if err := errors.Join(os.RemoveAll(own), trap()); err != nil {
			t.Fatal(err)
		}
		if _, err := bash.SpillDir(""); err == nil || !strings.Contains(err.Error(), own) {
			t.Errorf("%s: %v", what, err)
		}
		if got, isError := run(t, tool, `seq 1 3000`); isError ||
			!strings.Contains(got, "The full output could not be kept: directory for outputs: "+own) {
			t.Errorf("%s: %v %q", what, isError, got[len(got)-200:])
		}
	}
}

func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// renamed gives what is not known the name "new", and the first place.
func renamed(list, known []string) []string {
	out := []string{}
	for _, name := range list {
		if strings.Contains(strings.Join(known, " "), name) {
			out = append(out, name)
		} else {
			out = append([]string{"new"}, out...)
		}
	}
	return out
}

var longOutput = flag.Int("output.bytes", usualOutput, "how much a command writes; whole mebibytes")

// However much a command writes, what is in memory does not grow.
func TestLongOutputInConstantMemory(t *testing.T) {
	dir := t.TempDir()
	tool, _ := setUp(t, bash.Options{TempDir: dir, SpillBytes: 1 << 20})
	var before, now runtime.MemStats
	var most uint64
	runtime.ReadMemStats(&before)
	result, isError := tool.Run(t.Context(), call(fmt.Sprintf(`head -c %d /dev/zero | tr '\0' x`, *longOutput)),
		func(schemas.ToolResult) {
			runtime.ReadMemStats(&now)
			most = max(most, now.HeapInuse)
		})
	runtime.ReadMemStats(&now)
	got := result.Content.JoinText()
	if isError || !strings.Contains(got, fmt.Sprintf("\n\n[Showing last 50.0KB of line 1 (line is %d.0MB). First "+
		"1.0MB of the output: ", *longOutput>>20)) {
		t.Errorf("%v %q", isError, got[max(0, len(got)-300):])
	}
	t.Logf("heap at most %d KiB, allocated %d KiB in all", most>>10, (now.TotalAlloc-before.TotalAlloc)>>10)
	if most > before.HeapInuse+32<<20 {
		t.Errorf("the heap grew from %d to %d bytes", before.HeapInuse, most)
	}
}
