package bash_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/bash"
	"github.com/loopbus/loopbus/tools/internal/tooltest"
	"github.com/loopbus/loopbus/tools/workspace"
)

// inEach runs a test in every sandbox, and skips those that the machine does not have.
func inEach(t *testing.T, o bash.Options, test func(t *testing.T, tool tools.Tool, rig *tooltest.Rig)) {
	for _, sandbox := range []bash.Sandbox{bash.SandboxBubblewrap, bash.SandboxNamespaces} {
		t.Run(string(sandbox), func(t *testing.T) {
			rig := tooltest.New(t)
			o := o
			o.Sandbox, o.Workspace, o.TempDir = sandbox, rig.Workspace, t.TempDir()
			o.Environ = append(o.Environ, "PATH="+os.Getenv("PATH"))
			o.SandboxHide = slices.Clone(o.SandboxHide)
			for i, path := range o.SandboxHide {
				o.SandboxHide[i] = rig.Path(path)
			}
			machine := o
			machine.SandboxHide = nil // they do not exist yet
			need(t, machine)
			test(t, bash.New(o), rig)
		})
	}
}

// need skips a test where the machine does not have its sandbox: it has to be refused there, clearly and beforehand.
// Whether the machine has it is found out in another way, so that a sandbox that is broken is not taken for one that
// cannot be had.
func need(t *testing.T, o bash.Options) {
	t.Helper()
	err := bash.Check(t.Context(), o)
	if err == nil {
		return
	}
	text := err.Error()
	if !strings.HasPrefix(text, "bash: sandbox "+string(o.Sandbox)) ||
		!strings.Contains(text, "cannot be had on this machine") && !strings.Contains(text, "install bubblewrap") {
		t.Errorf("refused without a clear text: %v", err)
	}
	if os.Getuid() == 0 && strings.Contains(text, "map owners of files") {
		t.Skipf("root has no sandbox where the file system of %s cannot map owners: %v", o.Workspace.Root(), err)
	}
	if probe := machineHas(o.Sandbox); probe != nil {
		t.Skipf("this machine does not have it (%v): %v", probe, err)
	}
	t.Fatalf("the machine could have it: %v", err)
}

// machineHas returns an error if what a sandbox is made of cannot be had.
func machineHas(sandbox bash.Sandbox) error {
	cmd := exec.Command("bwrap", "--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc", "--dev",
		"/dev", "true")
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	if sandbox == bash.SandboxNamespaces {
		cmd = exec.Command("unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "--mount-proc", "true")
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", cmd.Path, err, out)
	}
	return nil
}

func TestSandboxConfinesTheFileSystem(t *testing.T) {
	o := bash.Options{SandboxHide: []string{"../outside/secret"}}
	inEach(t, o, func(t *testing.T, tool tools.Tool, rig *tooltest.Rig) {
		rig.Put("../outside/plain", "plain\n")
		outside := filepath.Dir(rig.Path("../outside/plain"))
		made := fmt.Sprintf("loopbus-test-%d", os.Getpid())
		t.Cleanup(func() { _ = os.Remove("/usr/" + made) }) // what a sandbox that is broken has let through
		etc := "/etc/hostname"
		if _, err := os.Stat(etc); err != nil {
			etc = "/etc/passwd"
		}
		for command, want := range map[string]string{
			`pwd; echo new >made; cat made`:                             rig.Root + "\nnew\n",
			`mkdir -p a/b && rm -r a && echo ok`:                        "ok\n",
			`[ -s ` + etc + ` ] && echo readable`:                       "readable\n",
			`{ : >>` + etc + `; } 2>/dev/null || echo refused`:          "refused\n",
			`touch /usr/` + made + ` 2>/dev/null || echo refused`:       "refused\n",
			`cat ` + outside + `/plain 2>/dev/null || echo not there`:   "not there\n", // it is below /tmp, which is its own
			`cat ` + outside + `/secret 2>/dev/null`:                    "(no output)",
			`echo x >/tmp/x && cat /tmp/x && ls -A /var/tmp && ls /run`: "x\n",
			`{ echo x >/proc/self/comm; } 2>/dev/null || echo refused`:  "refused\n",
			`echo $TMPDIR`: "/tmp\n",
			`grep -c . /proc/1/status >/dev/null && ls /proc | grep -c '^[0-9]*$' | tr 0-9 n`: "n\n",
		} {
			got, _ := run(t, tool, command)
			if strings.Contains(command, "refused") {
				got = got[max(0, strings.Index(got, "refused")):]
			}
			if strings.HasSuffix(command, "/secret 2>/dev/null") {
				got, _, _ = strings.Cut(got, "\n")
			}
			if got != want {
				t.Errorf("%s: %q, want %q", command, got, want)
			}
		}
		if got := rig.Get("made"); got != "new\n" {
			t.Errorf("what was written in the workspace: %q", got)
		}
	})
}

func TestSandboxHidesFiles(t *testing.T) {
	o := bash.Options{SandboxHide: []string{"key", "keys", "k\xffy"}} // a name need not be UTF-8
	inEach(t, o, func(t *testing.T, tool tools.Tool, rig *tooltest.Rig) {
		rig.Put("key", "secret\n")
		rig.Put("k\xffy", "secret\n")
		rig.Put("keys/one", "secret\n")
		rig.Put("plain", "plain\n")
		if got, _ := run(t, tool, `cat k*y keys/* 2>/dev/null; ls keys; cat plain`); got != "plain\n" {
			t.Errorf("%q", got)
		}
	})
}

// A sandbox hides, without being asked, the stores in the workspace, those that links in it lead to, and private files.
func TestSandboxHidesStores(t *testing.T) {
	for _, sandbox := range []bash.Sandbox{bash.SandboxBubblewrap, bash.SandboxNamespaces} {
		t.Run(string(sandbox), func(t *testing.T) {
			rig := tooltest.New(t)
			rig.Put("keys.json", "secret\n")
			w, err := workspace.Open(workspace.Options{Root: rig.Root, Private: []string{rig.Path("keys.json")}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = w.Close() })
			o := bash.Options{Workspace: w, Sandbox: sandbox, TempDir: t.TempDir(),
				Environ: []string{"PATH=" + os.Getenv("PATH")}}
			need(t, o)
			tool := bash.New(o)
			for _, store := range []string{"data", "deep/data"} { // also one that is made after the tool
				rig.Put(store+"/"+schemas.StoreMark, "")
				rig.Put(store+"/http-token", "secret\n")
			}
			rig.Link("link", "deep/data")
			rig.Put("plain", "plain\n")
			for _, c := range []struct{ command, want string }{
				{`cat data/* link/* deep/data/* keys.json 2>/dev/null; ls -A data link/; cat plain`,
					"data:\n\nlink/:\nplain\n"},
				{`{ mv data away || rm -rf data || echo x >data/http-token || echo x >data/new; } 2>/dev/null; ls -d data`,
					"data\n"},
			} {
				if got, _ := run(t, tool, c.command); got != c.want {
					t.Errorf("%s: %q, want %q", c.command, got, c.want)
				}
			}
			if rig.Get("data/http-token") != "secret\n" || rig.Get("deep/data/http-token") != "secret\n" {
				t.Error("a store has changed")
			}
		})
	}
}

// Root has no powers in a sandbox, and nobody gets any.
func TestSandboxTakesPowersAway(t *testing.T) {
	outside := fmt.Sprintf("/etc/loopbus-test-%d", os.Getpid())
	t.Cleanup(func() { _ = os.Remove(outside) }) // what a sandbox that is broken has let through
	inEach(t, bash.Options{}, func(t *testing.T, tool tools.Tool, _ *tooltest.Rig) {
		got, _ := run(t, tool, `grep -E '^(CapEff|CapPrm|CapInh|CapBnd|CapAmb|NoNewPrivs):' /proc/self/status | tr -d '\t '`)
		const zero = ":0000000000000000\n"
		if want := "CapInh" + zero + "CapPrm" + zero + "CapEff" + zero + "CapBnd" + zero + "CapAmb" + zero +
			"NoNewPrivs:1\n"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		for _, command := range []string{
			`mount -o remount,rw / && touch ` + outside, `umount /tmp`, `mount -t tmpfs x /mnt`,
			`unshare -Urm sh -c 'mount -o remount,rw,bind / && touch ` + outside + `'`,
		} {
			if got, isError := run(t, tool, command); !isError {
				t.Errorf("%s: %q", command, got)
			}
		}
		if _, err := os.Stat(outside); err == nil {
			t.Error("a file was made outside")
		}
	})
}

func TestSandboxNetwork(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte("hello\n"))
			_ = conn.Close()
		}
	}()
	command := fmt.Sprintf(`{ cat </dev/tcp/127.0.0.1/%d; } 2>/dev/null || echo none`, listener.Addr().(*net.TCPAddr).Port)
	for network, want := range map[bool]string{true: "hello\n", false: "none\n"} {
		t.Run(fmt.Sprintf("network %t", network), func(t *testing.T) {
			inEach(t, bash.Options{SandboxNetwork: network}, func(t *testing.T, tool tools.Tool, _ *tooltest.Rig) {
				if got, _ := run(t, tool, command); got != want {
					t.Errorf("%q, want %q", got, want)
				}
			})
		})
	}
}

// Processes of the worker are not seen, and cannot be sent signals.
func TestSandboxProcesses(t *testing.T) {
	inEach(t, bash.Options{}, func(t *testing.T, tool tools.Tool, _ *tooltest.Rig) {
		got, _ := run(t, tool, fmt.Sprintf(`kill -0 %d 2>/dev/null && echo seen; cat /proc/%d/environ 2>/dev/null; echo end`,
			os.Getpid(), os.Getpid()))
		if got != "end\n" && os.Getpid() > 20 {
			t.Errorf("%q", got)
		}
	})
}

func TestSandboxStatus(t *testing.T) {
	inEach(t, bash.Options{}, func(t *testing.T, tool tools.Tool, _ *tooltest.Rig) {
		for command, want := range map[string]string{
			"exit 7":        "(no output)\n\nCommand exited with code 7",
			"kill -TERM $$": "(no output)\n\nCommand exited with code 143", "echo hi >&2": "hi\n",
		} {
			if got, _ := run(t, tool, command); got != want {
				t.Errorf("%s: %q, want %q", command, got, want)
			}
		}
	})
}

// A cancelled command takes along all it has started, also what has left its group and session; and so does one that
// ends.
func TestSandboxKillsTheWholeTree(t *testing.T) {
	inEach(t, bash.Options{}, func(t *testing.T, tool tools.Tool, rig *tooltest.Rig) {
		for name, c := range map[string]struct {
			command string
			abort   bool
		}{
			"cancelled": {`exec 3>fifo; setsid bash -c 'trap "" TERM HUP; echo ready >&3; while :; do sleep 300; done' & wait`,
				true},
			"ended": {`exec 3>fifo; setsid bash -c 'echo ready >&3; sleep 300' >/dev/null 2>&1 & read -t 60 x <go`, false},
		} {
			t.Run(name, func(t *testing.T) {
				fifos(t, rig.Path("fifo"), rig.Path("go"))
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ended := make(chan struct{})
				go func() { defer close(ended); tool.Run(ctx, call(c.command), nil) }()
				pipe, err := os.Open(rig.Path("fifo"))
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = pipe.Close() }()
				ready := make([]byte, 6)
				if _, err := pipe.Read(ready); err != nil || string(ready) != "ready\n" {
					t.Fatalf("%q, %v", ready, err)
				}
				if c.abort {
					cancel()
				} else if err := os.WriteFile(rig.Path("go"), []byte("go\n"), 0o600); err != nil {
					t.Fatal(err)
				}
				within(t, ended)
				closed := make(chan error, 1)
				go func() { _, err := pipe.Read(ready); closed <- err }()
				if err := within(t, closed); err == nil {
					t.Error("somebody still writes")
				}
			})
		}
	})
}

func fifos(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		_ = os.Remove(path)
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSandboxThatCannotBeHad(t *testing.T) {
	rig := tooltest.New(t)
	for want, o := range map[string]bash.Options{
		"there is none of that name":      {Sandbox: "docker"},
		"a limit is negative":             {Limits: bash.Limits{Memory: -1}},
		"in whole seconds, and not 1.5s":  {Limits: bash.Limits{CPU: 1500 * time.Millisecond}},
		"a command that does nothing end": {Limits: bash.Limits{Memory: 1 << 10}},
	} {
		o.Workspace = rig.Workspace
		if err := bash.Check(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	t.Setenv("PATH", t.TempDir())
	err := bash.Check(t.Context(), bash.Options{Workspace: rig.Workspace, Sandbox: bash.SandboxBubblewrap})
	if err == nil || !strings.Contains(err.Error(), "install bubblewrap") {
		t.Errorf("without the program: %v", err)
	}
	if err := bash.Check(t.Context(), bash.Options{Workspace: rig.Workspace}); err != nil {
		t.Errorf("none: %v", err)
	}
}
