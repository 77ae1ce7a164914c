//go:build unix

package tools_test

import (
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"github.com/loopbus/loopbus/tools/edit"
	"github.com/loopbus/loopbus/tools/internal/tooltest"
	"github.com/loopbus/loopbus/tools/write"
)

const fullEnv = "LOOPBUS_TEST_FULL"

// A write or an edit that the system breaks off, here at a limit for the size of files as on a full disk elsewhere,
// leaves the file as it was, with its mode and links.
func TestAWriteThatFailsLeavesTheFile(t *testing.T) {
	t.Parallel()
	if os.Getenv(fullEnv) == "" { // the limit holds for a whole process
		cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), fullEnv+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("with a limit: %v\n%s", err, out)
		}
		return
	}
	const limit = 64 << 10
	text := func(size int) string { return "start\n" + strings.Repeat("0123456\n", size>>3) }
	rig := tooltest.New(t)
	files := map[string]string{"small": text(limit / 2), "large": text(2 * limit)}
	for name, content := range files {
		rig.Put(name, content)
		if err := os.Chmod(rig.Path(name), 0o640); err != nil {
			t.Fatal(err)
		}
		if err := os.Link(rig.Path(name), rig.Path(name+".link")); err != nil {
			t.Fatal(err)
		}
	}
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: limit}); err != nil {
		t.Fatal(err)
	}
	box := allTools(rig.Workspace, t.TempDir(), nil)
	longer := strings.Repeat("new\n", limit/2)
	for name, content := range files {
		for tool, args := range map[string]map[string]any{
			"write longer":  {"path": name, "content": content + longer},
			"write shorter": {"path": name, "content": strings.Repeat("new\n", limit*3/8)},
			"edit longer": {"path": name, "edits": []map[string]string{
				{"oldText": "start", "newText": longer}}},
			"edit shorter": {"path": name, "edits": []map[string]string{{"oldText": "start", "newText": "s"}}},
		} {
			if name == "small" && strings.HasSuffix(tool, "shorter") {
				continue
			}
			tool, _, _ := strings.Cut(tool, " ")
			got, isError := rig.Text(box[tool], args)
			if !isError || !strings.Contains(got, "file too large") || strings.Contains(got, "put back") {
				t.Errorf("%s %s: error %v, %.200q", tool, name, isError, got)
			}
			info, err := os.Stat(rig.Path(name))
			if err != nil || info.Mode().Perm() != 0o640 {
				t.Errorf("%s %s: %v, %v", tool, name, info, err)
			}
			if rig.Get(name) != content || rig.Get(name+".link") != content {
				t.Errorf("%s %s: %d bytes became %d, %.20q…", tool, name, len(content), len(rig.Get(name)), rig.Get(name))
				return
			}
		}
	}
	for _, tool := range []string{write.Name, edit.Name} {
		if got, isError := rig.Text(box[tool], map[string]map[string]any{
			write.Name: {"path": "small", "content": "start"},
			edit.Name:  {"path": "small", "edits": []map[string]string{{"oldText": "start", "newText": "end"}}},
		}[tool]); isError {
			t.Errorf("%s within the limit: %s", tool, got)
		}
	}
	if got := rig.Get("small.link"); got != "end" {
		t.Errorf("got %.20q", got)
	}
}
