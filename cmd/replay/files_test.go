package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/schemas"
)

// TestFilesOfSessions holds that a session goes out as a file of each format, and a pi file in and out again without a
// change.
func TestFilesOfSessions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.agentSession()
	pi := w.replay("export", "agent", "--format", "pi", "--cwd", "/work")
	if pi.code != 0 || !strings.HasPrefix(pi.stdout, `{"type":"session","version":3,"id":"agent",`) ||
		!strings.Contains(pi.stdout, `"cwd":"/work"`) || !strings.Contains(pi.stdout, `"type":"model_change"`) {
		t.Errorf("pi: %+v", pi)
	}
	for format, want := range map[string]string{"html": "<h1><bdi>Session agent</bdi></h1>", "md": "# Session agent\n"} {
		if r := w.replay("export", "agent", "--format", format); r.code != 0 || !strings.Contains(r.stdout, want) ||
			!strings.Contains(r.stdout, "list the files") || !strings.Contains(r.stdout, "Two files.") {
			t.Errorf("%s: %+v", format, r)
		}
	}
	file := filepath.Join(t.TempDir(), "agent.jsonl")
	if err := os.WriteFile(file, []byte(pi.stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"import", file}, 1, "name another with --session"},
		{[]string{"import", file, "--session", "again"}, 0, "session again, "},
		{[]string{"import", file, "--session", "again"}, 1, "there is a log of this session already"},
		{[]string{"verify", "again"}, 0, "again: ok"},
		{[]string{"import", file, file, "--session", "x"}, 2, "--session can be used with one file only"},
		{[]string{"import"}, 2, "wrong number of arguments"},
		{[]string{"export", "--all", "--format", "pi"}, 2, "--all exports events only"},
		{[]string{"export", "nobody", "--format", "md"}, 1, "nobody"},
	} {
		if r := w.replay(c.args...); r.code != c.code || !strings.Contains(r.stdout+r.stderr, c.says) {
			t.Errorf("%v: %+v, want %d and %q", c.args, r, c.code, c.says)
		}
	}
	if again := w.replay("export", "again", "--format", "pi"); again.stdout != pi.stdout {
		t.Errorf("imported\n%s\nand exported\n%s", pi.stdout, again.stdout)
	}
}

// TestABrokenFileWritesNothing holds that no file is imported if one of them is broken, and that line and reason are
// told.
func TestABrokenFileWritesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.jsonl"), filepath.Join(dir, "bad.jsonl")
	header := `{"type":"session","version":3,"id":"good","timestamp":"2026-01-02T03:04:05.000Z","cwd":"/p"}` + "\n"
	for path, text := range map[string]string{good: header, bad: header + "{broken\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if r := w.replay("import", good, bad); r.code != 1 || !strings.Contains(r.stderr, "line 2: not JSON") {
		t.Errorf("%+v", r)
	}
	if r := w.replay("list", "--json"); strings.Contains(r.stdout, "good") {
		t.Errorf("a session was made: %s", r.stdout)
	}
	if r := w.replay("import", good); r.code != 0 || r.stdout != good+": session good, 0 entries\n" {
		t.Errorf("%+v", r)
	}
	w.writer("named").append(&schemas.Name{Name: "My work"})
	if r := w.replay("export", "named", "--format", "md"); !strings.HasPrefix(r.stdout, "# My work\n") {
		t.Errorf("%+v", r)
	}
}
