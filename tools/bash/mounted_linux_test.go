package bash_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loopbus/loopbus/tools/bash"
	"github.com/loopbus/loopbus/tools/internal/tooltest"
)

// sharedMountsEnv makes the test binary a machine whose mounts are shared, as systemd makes them, with a worker. Its
// value is a mountedSpec.
const sharedMountsEnv = "LOOPBUS_TEST_SHARED_MOUNTS"

// later is where such a machine mounts a file system of anybody's while a command runs.
const later = "/mnt"

// mountedSpec describes such a machine. Dir is of [dirOfNobody], and Worker a [workerSpec].
type mountedSpec struct {
	Dir    string
	User   int // of the worker
	Worker string
}

// mountForCommands is such a machine.
func mountForCommands(raw string) error {
	var spec mountedSpec
	if err := json.Unmarshal([]byte(raw), &spec); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return fmt.Errorf("share mounts: %w", err)
	}
	worker := exec.Command(filepath.Join(spec.Dir, "self"))
	worker.Env = []string{"PATH=" + os.Getenv("PATH"), workerEnv + "=" + spec.Worker}
	worker.Stdin, worker.Stdout, worker.Stderr = os.Stdin, os.Stdout, os.Stderr
	worker.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{
		Uid: uint32(spec.User), Gid: uint32(spec.User),
	}}
	if err := worker.Start(); err != nil {
		return err
	}
	root := filepath.Join(spec.Dir, "root")
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(filepath.Join(root, "begun")); err == nil {
			break
		} else if time.Now().After(end) {
			return errors.Join(err, worker.Process.Kill(), worker.Wait())
		}
	}
	if err := unix.Mount("tmpfs", later, "tmpfs", 0, "mode=0777"); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, "mounted"), nil, 0o644); err != nil {
		return err
	}
	return worker.Wait()
}

// TestSandboxGetsNoLaterMounts mounts a file system while a command runs. The command must not have it: everything but
// the workspace is read-only.
func TestSandboxGetsNoLaterMounts(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can mount a file system")
	}
	for _, sandbox := range []bash.Sandbox{bash.SandboxBubblewrap, bash.SandboxNamespaces} {
		for _, user := range []int{0, nobody} {
			t.Run(fmt.Sprint(sandbox, " of user ", user), func(t *testing.T) {
				t.Parallel()
				need(t, bash.Options{Workspace: tooltest.New(t).Workspace, Sandbox: sandbox, Environ: os.Environ()})
				dir := dirOfNobody(t)
				copySelf(t, dir)
				worker, err := json.Marshal(workerSpec{Root: filepath.Join(dir, "root"), Temp: t.TempDir(), Sandbox: sandbox,
					Command: "touch begun; until [ -e mounted ]; do sleep 0.02; done; " +
						"touch " + later + "/written 2>/dev/null && echo written || echo refused"})
				if err != nil {
					t.Fatal(err)
				}
				spec, err := json.Marshal(mountedSpec{dir, user, string(worker)})
				if err != nil {
					t.Fatal(err)
				}
				cmd := exec.Command("/proc/self/exe")
				cmd.Env = []string{"PATH=" + os.Getenv("PATH"), sharedMountsEnv + "=" + string(spec)}
				cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
				if said := startAndRead(t, cmd); strings.TrimSpace(said) != "ended false refused" {
					t.Errorf("%q", said)
				}
			})
		}
	}
}
