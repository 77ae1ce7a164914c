package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/cmd/internal/toolserve"
	"github.com/loopbus/loopbus/tools/bash"
	"github.com/loopbus/loopbus/tools/workspace"
)

func TestSandboxOptions(t *testing.T) {
	t.Parallel()
	none := func(string) string { return "" }
	creds := filepath.Join(t.TempDir(), "c")
	if err := os.WriteFile(creds, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := parse([]string{"--bash-memory", "512M", "--bash-cpu", "90s", "--bash-processes", "64", "--bash-file-size",
		"1g", "--sandbox", "namespaces",
		"--sandbox-network", "--sandbox-hide", "/a,/b", "--creds", creds}, none)
	if err != nil {
		t.Fatal(err)
	}
	got := o.Sandbox.bash(o)
	if d := cmp.Diff(bash.Limits{Memory: 512 << 20, CPU: 90 * time.Second, Processes: 64, FileSize: 1 << 30},
		got.Limits); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"/a", "/b"}, got.Hide); d != "" || !got.Network ||
		got.Sandbox != bash.SandboxNamespaces {
		t.Errorf("%+v", got)
	}
	if !slices.Contains(o.private(), creds) {
		t.Errorf("tools may have the credentials: %q", o.private())
	}
	for want, args := range map[string][]string{
		`--bash-memory: "lots"`: {"--bash-memory", "lots"}, `--bash-file-size: "-1"`: {"--bash-file-size=-1"},
		`--bash-memory: "0"`:            {"--bash-memory", "0"},
		`--bash-memory: "99999999999G"`: {"--bash-memory", "99999999999G"}, "--bash-cpu: 1.5s": {"--bash-cpu", "1.5s"},
		`--sandbox: "docker"`:      {"--sandbox", "docker"},
		"need a sandbox":           {"--sandbox-network"},
		`--bash-output-size: "x"`:  {"--bash-output-size", "x"},
		`--bash-output-total: "x"`: {"--bash-output-total", "x"},
		"--bash-output-age: must":  {"--bash-output-age", "0s"},
		"2G of one output is more": {"--bash-output-size", "2G", "--bash-output-total", "1G"},
	} {
		if _, err := parse(args, none); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", args, err, want)
		}
	}
}

func TestOutputOptions(t *testing.T) {
	t.Parallel()
	none := func(string) string { return "" }
	for _, c := range []struct {
		args []string
		want toolserve.Outputs
	}{
		{nil, toolserve.Outputs{Size: bash.DefaultSpillBytes, Total: bash.DefaultSpillTotal, Age: bash.DefaultSpillAge}},
		{[]string{"--bash-output-dir", "/d", "--bash-output-size", "1K", "--bash-output-total", "1M", "--bash-output-age",
			"2h"}, toolserve.Outputs{Dir: "/d", Size: 1 << 10, Total: 1 << 20, Age: 2 * time.Hour}},
	} {
		o, err := parse(c.args, none)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c.want, o.Sandbox.bash(o).Outputs); d != "" {
			t.Errorf("%v (-want +got):\n%s", c.args, d)
		}
	}
}

// Outputs that are too long to be shown are kept where the settings say, and can be read by the tool for that.
func TestOutputsAreKept(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	dir := filepath.Join(t.TempDir(), "outputs")
	r.start(new(bustest.Log), "--id", "w9", "--root", t.TempDir(), "--tools", "bash,read", "--bash-output-dir", dir,
		"--bash-output-size", "20K")
	bustest.Eventually(t, "both are announced", func() bool {
		return r.announcement("bash", "w9") != nil && r.announcement("read", "w9") != nil
	})
	r.call("bash", `{"command":"seq 1 10000"}`)
	got, _ := r.answer()
	if got.IsError || !strings.Contains(got.Result.Content.JoinText(), "First 20.0KB of the output: ") {
		t.Errorf("the result has no notice, or is an error: %t", got.IsError)
	}
	files, err := filepath.Glob(bash.SpillPattern(dir))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	if info, err := os.Stat(files[0]); err != nil || info.Size() != 20<<10 {
		t.Errorf("%v, %v", info, err)
	}
	r.call("read", `{"path":"`+files[0]+`","limit":1}`)
	r.wantText("1\n\n[4317 more lines in file. Use offset=2 to continue.]", false)
	r.settled()
}

// The command in a sandbox: calls are confined, or, where the machine cannot have it, the command says so and does not
// start.
func TestCommandInASandbox(t *testing.T) {
	t.Parallel()
	for _, sandbox := range []string{"bubblewrap", "namespaces"} {
		t.Run(sandbox, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			root := t.TempDir()
			creds := filepath.Join(root, "mcp.token")
			if err := os.WriteFile(creds, []byte("hidden-token"), 0o600); err != nil {
				t.Fatal(err)
			}
			missing := bash.Check(t.Context(), checked(t, root, sandbox))
			args := []string{"--nats", r.server.ClientURL(), "--id", "w9", "--root", root, "--tools", "bash", "--sandbox",
				sandbox, "--bash-memory", "1G",
				"--mcp-token-file", creds}
			if missing != nil {
				var log bustest.Log
				err := run(soon(t), args, func(string) string { return "" }, os.Environ(), strings.NewReader(""), &log, &log)
				if err == nil || !strings.Contains(err.Error(), "sandbox "+sandbox) {
					t.Errorf("without it: %v", err)
				}
				return
			}
			r.start(new(bustest.Log), args[2:]...)
			bustest.Eventually(t, "bash is announced", func() bool { return r.announcement("bash", "w9") != nil })
			r.call("bash", `{"command":"ulimit -v; cat mcp.token 2>/dev/null; touch /etc/loopbus-test 2>/dev/null || echo `+
				`refused"}`)
			r.wantText("1048576\nrefused\n", false)
			r.settled()
		})
	}
}

// The variables of an MCP server are not for commands in a sandbox to see. Without one they are, and the worker says
// so.
func TestCommandsAndTheVariablesOfMCPServers(t *testing.T) {
	t.Parallel()
	for _, sandbox := range []string{"none", "bubblewrap", "namespaces"} {
		t.Run(sandbox, func(t *testing.T) {
			t.Parallel()
			root, dir := t.TempDir(), t.TempDir()
			if sandbox != "none" && bash.Check(t.Context(), checked(t, root, sandbox)) != nil {
				return // TestCommandInASandbox has what happens then
			}
			file, secret := filepath.Join(dir, "mcp.json"), "visible-in-"+sandbox
			config := `{"mcpServers":{"zoo":{"command":"` + self(t) + `","args":["` + asMCPServer + `","` + dir + `"],` +
				`"env":{"TOKEN":"` + secret + `"}}}}`
			if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
				t.Fatal(err)
			}
			r, log := newRig(t), new(bustest.Log)
			r.start(log, "--id", "w9", "--root", root, "--tools", "bash", "--sandbox", sandbox, "--mcp-config", file)
			bustest.Eventually(t, "all is announced", func() bool {
				return r.announcement("bash", "w9") != nil && r.announcement("zoo_echo", "w9-zoo-1") != nil
			})
			r.call("bash", `{"command":"cat /proc/[0-9]*/environ '`+file+`' 2>/dev/null | `+
				`grep -ao visible-in-[`+sandbox[:1]+`]`+sandbox[1:]+` | sort -u; echo end"}`)
			want, warned := "end\n", false
			if sandbox == "none" {
				want, warned = secret+"\nend\n", true
			}
			r.wantText(want, false)
			if said := log.String(); strings.Contains(said, "can read the environment of MCP servers") != warned ||
				strings.Contains(said, secret) {
				t.Errorf("the log has:\n%s", said)
			}
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
