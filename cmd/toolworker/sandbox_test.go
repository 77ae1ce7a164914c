package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/tools/bash"
	"github.com/loopbus/loopbus/tools/workspace"
)

func TestSandboxOptions(t *testing.T) {
	none := func(string) string { return "" }
	o, err := parse([]string{"--bash-memory", "512M", "--bash-cpu", "90s", "--bash-processes", "64", "--bash-file-size", "1g", "--sandbox", "namespaces",
		"--sandbox-network", "--sandbox-hide", "/a,/b", "--creds", "/c"}, none, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	got := o.sandbox.bash(o)
	if d := cmp.Diff(bash.Limits{Memory: 512 << 20, CPU: 90 * time.Second, Processes: 64, FileSize: 1 << 30}, got.Limits); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"/a", "/b", "/c"}, got.Hide); d != "" || !got.Network || got.Sandbox != bash.SandboxNamespaces {
		t.Errorf("%+v", got)
	}
	for want, args := range map[string][]string{
		`--bash-memory: "lots"`: {"--bash-memory", "lots"}, `--bash-file-size: "-1"`: {"--bash-file-size=-1"}, `--bash-memory: "0"`: {"--bash-memory", "0"},
		`--bash-memory: "99999999999G"`: {"--bash-memory", "99999999999G"}, "--bash-cpu: 1.5s": {"--bash-cpu", "1.5s"}, `--sandbox: "docker"`: {"--sandbox", "docker"},
		"there is no sandbox": {"--sandbox-network"},
	} {
		if _, err := parse(args, none, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", args, err, want)
		}
	}
}

// The command in a sandbox: calls are confined, or, where the machine cannot have it, the command says so and does not start.
func TestCommandInASandbox(t *testing.T) {
	for _, sandbox := range []string{"bubblewrap", "namespaces"} {
		t.Run(sandbox, func(t *testing.T) {
			r := newRig(t)
			root := t.TempDir()
			creds := filepath.Join(root, "mcp.token")
			if err := os.WriteFile(creds, []byte("hidden-token"), 0o600); err != nil {
				t.Fatal(err)
			}
			missing := bash.Check(t.Context(), checked(t, root, sandbox))
			args := []string{"--nats", r.server.ClientURL(), "--id", "w9", "--root", root, "--tools", "bash", "--sandbox", sandbox, "--bash-memory", "1G",
				"--mcp-token-file", creds}
			if missing != nil {
				var log text
				err := run(soon(t), args, func(string) string { return "" }, os.Environ(), strings.NewReader(""), &log, &log)
				if err == nil || !strings.Contains(err.Error(), "sandbox "+sandbox) {
					t.Errorf("without it: %v", err)
				}
				return
			}
			r.start(new(text), args[2:]...)
			r.eventually("bash is announced", func() bool { return r.announcement("bash", "w9") != nil })
			r.call("bash", `{"command":"ulimit -v; cat mcp.token 2>/dev/null; touch /etc/loopbus-test 2>/dev/null || echo refused"}`)
			r.wantText("1048576\nrefused\n", false)
			r.settled()
		})
	}
}

func checked(t *testing.T, root, sandbox string) bash.Options {
	t.Helper()
	ws, err := workspace.Open(workspace.Options{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.Close() })
	return bash.Options{Workspace: ws, Sandbox: bash.Sandbox(sandbox), Limits: bash.Limits{Memory: 1 << 30}}
}
