//go:build unix

package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// flagLine is a flag in a program's help.
var flagLine = regexp.MustCompile(`(?m)^ +--([a-z-]+)`)

// settingsOf are the names of a program's settings.
func settingsOf(t *testing.T, program string) (names []string) {
	t.Helper()
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(filepath.Join(dir, program), "help", "--all").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range flagLine.FindAllStringSubmatch(string(out), -1) {
		names = append(names, m[1])
	}
	if len(names) < 20 {
		t.Fatalf("%s has %d settings: this test does not see what it looks for", program, len(names))
	}
	return names
}

// TestSettings checks that every flag, every LOOPBUS_ variable and every line of a configuration file is a setting of
// its program, with a value that the program accepts.
func TestSettings(t *testing.T) {
	t.Parallel()
	runner, toolworker := settingsOf(t, "runner"), settingsOf(t, "toolworker")
	of := func(program string) []string {
		if program == "toolworker" {
			return toolworker
		}
		return runner
	}
	n := 0
	for _, c := range containers(t) {
		if c.program == "" {
			continue
		}
		for _, a := range c.args {
			flag, _, _ := strings.Cut(strings.TrimPrefix(a, "--"), "=")
			if n++; !strings.HasPrefix(a, "--") || !slices.Contains(of(c.program), flag) {
				t.Errorf("%s: %s has no flag %s", c.where, c.program, a)
			}
		}
		for variable := range c.env {
			name, ok := strings.CutPrefix(variable, "LOOPBUS_")
			name = strings.ToLower(strings.ReplaceAll(name, "_", "-"))
			if ok && !slices.Contains(of(c.program), name) {
				t.Errorf("%s: %s has no variable %s", c.where, c.program, variable)
			}
		}
	}
	if n < 20 {
		t.Errorf("%d flags: this test does not see what it looks for", n)
	}
	for _, program := range []string{"runner", "toolworker"} {
		text := read(t, filepath.Join(deploy, "systemd", program+".yaml"))
		accepted(t, program, text, unit(t, program).exec)
	}
}

// accepted runs a program with a configuration file and a unit's command line. No server listens at its NATS address,
// so that it ends with a connection error; wrong settings end it before that, with status 2.
func accepted(t *testing.T, program, config string, exe []string) {
	t.Helper()
	dir, err := programs()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "config.yaml")
	config = regexp.MustCompile(`nats://[^"]+`).ReplaceAllString(config, "nats://127.0.0.1:1")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	args := slices.Clone(exe[1:])
	for i, a := range args {
		switch a {
		case "--config":
			args[i+1] = file
		case "--root":
			args[i+1] = t.TempDir()
		}
	}
	cmd := exec.Command(filepath.Join(dir, program), args...)
	cmd.Env = []string{"LOOPBUS_PASSWORD=x", "HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "ANTHROPIC_API_KEY=x"}
	out, err := cmd.CombinedOutput()
	if code := cmd.ProcessState.ExitCode(); err == nil || code != 1 || !strings.Contains(string(out), "127.0.0.1:1") {
		t.Errorf("%s %v ended with %d: %s", program, args, code, out)
	}
}
