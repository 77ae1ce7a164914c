//go:build unix

package tools_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/loopbus/loopbus/tools/edit"
	"github.com/loopbus/loopbus/tools/find"
	"github.com/loopbus/loopbus/tools/grep"
	"github.com/loopbus/loopbus/tools/internal/tooltest"
	"github.com/loopbus/loopbus/tools/ls"
	"github.com/loopbus/loopbus/tools/read"
	"github.com/loopbus/loopbus/tools/write"
)

// nobody is a user whom files can be kept from: from root they cannot.
const nobody = 65534

// Files and directories that must not be read are errors where they are named, and passed over where they are not.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	if os.Getuid() == 0 {
		again(t)
		return
	}
	rig := tooltest.New(t)
	rig.Put("f", "x\n")
	rig.Put("d/f", "x\n")
	rig.Put("g", "x\n")
	for _, name := range []string{"f", "d"} {
		path := rig.Path(name)
		if err := os.Chmod(path, 0); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Chmod(path, 0o700) }) // or it could not be removed
	}
	box := allTools(rig.Workspace, t.TempDir(), nil)
	for _, c := range []struct {
		tool, args, want string
		isError          bool
	}{
		{read.Name, `{"path":"f"}`, "EACCES: permission denied, access '" + rig.Path("f") + "'", true},
		{read.Name, `{"path":"d/f"}`, "EACCES: permission denied, access '" + rig.Path("d/f") + "'", true},
		{write.Name, `{"path":"f","content":"y"}`, "EACCES: permission denied, open '" + rig.Path("f") + "'", true},
		{edit.Name, `{"path":"f","edits":[{"oldText":"x","newText":"y"}]}`, "Could not edit file: f. Error code: EACCES.",
			true},
		{ls.Name, `{"path":"d"}`, "Cannot read directory: EACCES: permission denied, scandir '" + rig.Path("d") + "'", true},
		{grep.Name, `{"pattern":"x","path":"f"}`, "Cannot read file: EACCES: permission denied, open '" + rig.Path("f") + "'",
			true},
		{grep.Name, `{"pattern":"x","path":"d"}`, "Cannot read directory: EACCES: permission denied, scandir '" +
			rig.Path("d") + "'", true},
		{find.Name, `{"pattern":"*","path":"d"}`, "Cannot read directory: EACCES: permission denied, scandir '" +
			rig.Path("d") + "'", true},
		{grep.Name, `{"pattern":"x"}`, "g:1: x", false},
		{find.Name, `{"pattern":"**/f"}`, "f", false},
		{ls.Name, `{}`, "d/\nf\ng", false},
	} {
		if got, isError := rig.Text(box[c.tool], c.args); got != c.want || isError != c.isError {
			t.Errorf("%s %s: error %v, %q, want %q", c.tool, c.args, isError, got, c.want)
		}
	}
	rig.Put("w", "old")
	if err := os.Chmod(rig.Path("w"), 0o200); err != nil {
		t.Fatal(err)
	}
	got, isError := rig.Text(box[write.Name], `{"path":"w","content":"y"}`) // what may only be written is written
	if err := os.Chmod(rig.Path("w"), 0o600); err != nil {
		t.Fatal(err)
	}
	if isError || rig.Get("w") != "y" {
		t.Errorf("write: error %v, %q, left %q", isError, got, rig.Get("w"))
	}
}

// again has a test carried out by a process of nobody, which needs the binary and its files where that user may go.
func again(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("", "loopbus-nobody-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(copySelf(t, dir), "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Dir, cmd.Env = dir, []string{"TMPDIR=" + dir, "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("as nobody: %v\n%s", err, out)
	}
}

func copySelf(t *testing.T, dir string) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = self.Close() }()
	into := filepath.Join(dir, "self")
	file, err := os.OpenFile(into, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(file, self); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return into
}
