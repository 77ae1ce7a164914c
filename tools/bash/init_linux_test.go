package bash_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/bash"
	"github.com/loopbus/loopbus/tools/internal/tooltest"
)

// TestSandboxInitHasNothing looks from outside at the first process of a sandbox, which the command has for a parent:
// at the powers of each thread, and at each descriptor.
func TestSandboxInitHasNothing(t *testing.T) {
	inEach(t, bash.Options{}, func(t *testing.T, tool tools.Tool, rig *tooltest.Rig) {
		fifos(t, rig.Path("fifo"), rig.Path("go"))
		leaveOpen(t)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			run(t, tool, `echo ready >fifo; read x <go`)
		}()
		pipe, err := os.OpenFile(rig.Path("fifo"), os.O_RDWR, 0) // so that it does not wait for the command
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = pipe.Close() }()
		ready := make([]byte, len("ready\n"))
		if err := pipe.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(pipe, ready); err != nil {
			t.Fatalf("the command does not begin: %q, %v", ready, err)
		}
		for _, first := range firstOfSandboxes(t) {
			checkInit(t, first)
		}
		if err := os.WriteFile(rig.Path("go"), []byte("go\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		within(t, ended)
	})
}

// firstOfSandboxes are the first processes of process namespaces below this process. There is at least one.
func firstOfSandboxes(t *testing.T) (found []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/status")
	if err != nil {
		t.Fatal(err)
	}
	parents, first := map[string]string{}, map[string]bool{}
	for _, file := range files {
		pid := strings.Split(file, "/")[2]
		text, _ := os.ReadFile(file) // it may have ended
		for line := range strings.Lines(string(text)) {
			name, value, _ := strings.Cut(line, ":")
			fields := strings.Fields(value)
			switch {
			case name == "PPid":
				parents[pid] = fields[0]
			case name == "NSpid":
				first[pid] = len(fields) > 1 && fields[len(fields)-1] == "1"
			}
		}
	}
	own := fmt.Sprint(os.Getpid())
	for pid := range first {
		for up := pid; first[pid] && up != ""; up = parents[up] {
			if up == own {
				found = append(found, "/proc/"+pid)
			}
		}
	}
	if len(found) == 0 {
		t.Fatal("no sandbox is seen")
	}
	return found
}

func checkInit(t *testing.T, dir string) {
	t.Helper()
	threads, err := filepath.Glob(dir + "/task/*/status")
	if err != nil || len(threads) == 0 {
		t.Errorf("threads: %v, %v", threads, err)
	}
	for _, thread := range threads {
		if err := powerless(thread); err != nil {
			t.Error(err)
		}
	}
	descriptors, err := os.ReadDir(dir + "/fd")
	if errors.Is(err, fs.ErrPermission) && os.Getuid() != 0 {
		t.Log("the descriptors are shown to root only, and not to the command's user")
		return
	}
	if err != nil || len(descriptors) == 0 {
		t.Errorf("descriptors: %v, %v", descriptors, err)
	}
	for _, entry := range descriptors {
		d := dir + "/fd/" + entry.Name()
		target, err := os.Readlink(d)
		if err != nil {
			t.Error(err)
		}
		kind, _, _ := strings.Cut(target, ":")
		if strings.HasPrefix(target, "/sys/fs/cgroup/") && readOnly(t, d) {
			continue // Go's runtime has opened it in the sandbox, to know how many processors it may use
		}
		if target != "/dev/null" && kind != "pipe" && kind != "anon_inode" {
			t.Errorf("%s leads to %s", d, target)
		}
	}
}

// readOnly reports whether a descriptor is one for reading a file.
func readOnly(t *testing.T, descriptor string) bool {
	t.Helper()
	info, err := os.ReadFile(strings.Replace(descriptor, "/fd/", "/fdinfo/", 1))
	if err != nil {
		t.Fatal(err)
	}
	_, flags, _ := strings.Cut(string(info), "flags:")
	octal, _, _ := strings.Cut(strings.TrimSpace(flags), "\n")
	bits, err := strconv.ParseUint(octal, 8, 32)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Stat(descriptor)
	return err == nil && file.Mode().IsRegular() && bits&unix.O_ACCMODE == unix.O_RDONLY
}
