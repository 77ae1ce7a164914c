package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/bus/bustest"
)

// A shell expands ~/ only at the start of a word: not behind a comma or "=", and nothing does it in a file.
func TestHiddenPathsBeginInTheHomeDirectory(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte("sandbox: {sandbox: namespaces, sandbox-hide: [~/.ssh, ~/.config, /etc/keys]}\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	home := func(dir string) func(string) string {
		return func(name string) string { return map[string]string{"HOME": dir}[name] }
	}
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"--sandbox", "namespaces", "--sandbox-hide", "/home/ann/.ssh,~/.config"},
			[]string{"/home/ann/.ssh", "/home/ann/.config"}},
		{[]string{"--sandbox", "namespaces", "--sandbox-hide=~/.ssh"}, []string{"/home/ann/.ssh"}},
		{[]string{"--sandbox", "namespaces", "--sandbox-hide", "~,./~/x,a~,key"},
			[]string{"/home/ann", "./~/x", "a~", "key"}},
		{[]string{"--config", file}, []string{"/home/ann/.ssh", "/home/ann/.config", "/etc/keys"}},
	} {
		o, err := parse(c.args, home("/home/ann"))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(c.want, o.Sandbox.bash(o).Hide); d != "" {
			t.Errorf("%q (-want +got):\n%s", c.args, d)
		}
	}
	for path, want := range map[string]string{
		"~bob/.ssh": `--sandbox-hide: "~bob/.ssh" begins with "~"; write the whole path, or "./~bob/.ssh"`,
		"~/.ssh":    `--sandbox-hide: "~/.ssh" begins with "~", and HOME is not set; write the whole path`,
	} {
		_, err := parse([]string{"--sandbox", "namespaces", "--sandbox-hide", path}, home(""))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
}

// A worker does not start if it would not hide what it is told to, and says which path it is.
func TestCommandRefusesToHideWhatDoesNotExist(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	root, home := t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(home, ".ssh"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, sandbox := range []string{"bubblewrap", "namespaces"} {
		var log bustest.Log
		err := run(soon(t), []string{"--nats", r.server.ClientURL(), "--id", "w9", "--root", root, "--tools", "bash",
			"--sandbox", sandbox, "--sandbox-hide", "~/.ssh,~/.config"},
			func(name string) string { return map[string]string{"HOME": home}[name] }, os.Environ(), strings.NewReader(""),
			&log, &log)
		if err == nil || !strings.Contains(err.Error(), `cannot hide "`+home+`/.config" from commands: lstat `) ||
			strings.Contains(err.Error(), ".ssh") || r.announcement("bash", "w9") != nil {
			t.Errorf("%s: %v", sandbox, err)
		}
	}
}
