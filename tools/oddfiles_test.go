package tools_test

import (
	"os"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/tools/edit"
	"github.com/loopbus/loopbus/tools/find"
	"github.com/loopbus/loopbus/tools/grep"
	"github.com/loopbus/loopbus/tools/internal/tooltest"
	"github.com/loopbus/loopbus/tools/read"
)

// Files as they come, through all the tools that look into one.
func TestOddFiles(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789abcde ", 5<<20/16)
	for name, c := range map[string]struct {
		file, read, grep string // what is read, and found for "last"
		edited           string // the file, once "last" has become "done"
	}{
		"byte order mark": {"\uFEFFfirst\nlast\n", "\uFEFFfirst\nlast\n", "f:2: last", "\uFEFFfirst\ndone\n"},
		"CRLF":            {"first\r\nlast\r\n", "first\r\nlast\r\n", "f:2: last", "first\r\ndone\r\n"},
		"both":            {"\uFEFFfirst\r\nlast\r\n", "\uFEFFfirst\r\nlast\r\n", "f:2: last", "\uFEFFfirst\r\ndone\r\n"},
		"binary": {"\x00\xff\xfe\nlast\x01\n", "\x00\uFFFD\uFFFD\nlast\x01\n", "No matches found",
			"\x00\xff\xfe\ndone\x01\n"},
		"a line of 5 MB": {long + "\nlast\n", "[Line 1 is 5.0MB, exceeds 50.0KB limit. Use bash: sed -n '1p' f | head " +
			"-c 51200]", "f:2: last",
			long + "\ndone\n"},
		"a line of 5 MB and nothing else": {long + "last",
			"[Line 1 is 5.0MB, exceeds 50.0KB limit. Use bash: sed -n '1p' f | head -c 51200]",
			"f:1: " + long[:500] + "... [truncated]\n\n[Some lines truncated to 500 chars. Use read tool to see full lines]",
			long + "done"},
	} {
		t.Run(name, func(t *testing.T) {
			rig := tooltest.New(t)
			rig.Put("f", c.file)
			box := allTools(rig.Workspace, t.TempDir(), nil)
			for tool, want := range map[string]string{read.Name: c.read, grep.Name: c.grep} {
				if got, isError := rig.Text(box[tool], `{"path":"f","pattern":"last"}`); isError || got != want {
					t.Errorf("%s: error %v, %.200q, want %.200q", tool, isError, got, want)
				}
			}
			if text, isError := rig.Text(box[edit.Name], `{"path":"f","edits":[{"oldText":"last","newText":"done"}]}`); isError {
				t.Errorf("edit: %.200q", text)
			}
			if got := rig.Get("f"); got != c.edited {
				t.Errorf("edited: %d bytes, %.200q", len(got), got)
			}
		})
	}
}

// What a line of 5 MB hides is read by its number.
func TestBehindALongLine(t *testing.T) {
	t.Parallel()
	rig := tooltest.New(t)
	rig.Put("f", "first\n"+strings.Repeat("x", 5<<20)+"\nlast\n")
	box := allTools(rig.Workspace, t.TempDir(), nil)
	for args, want := range map[string]string{
		`{"path":"f"}`:            "first\n\n[Showing lines 1-1 of 4 (50.0KB limit). Use offset=2 to continue.]",
		`{"path":"f","offset":2}`: "[Line 2 is 5.0MB, exceeds 50.0KB limit. Use bash: sed -n '2p' f | head -c 51200]",
		`{"path":"f","offset":3}`: "last\n",
	} {
		if got, isError := rig.Text(box[read.Name], args); isError || got != want {
			t.Errorf("%s: error %v, %.200q", args, isError, got)
		}
	}
}

// Programs that others use for the same are not: with them on PATH, or nothing at all, results are the same.
func TestNoProgramIsNeeded(t *testing.T) {
	rig := tooltest.New(t)
	rig.Put("d/needle", "here it is\n")
	rig.Put(".gitignore", "*.log\n")
	rig.Put("needle.log", "here it is\n")
	programs, used := t.TempDir(), t.TempDir()+"/used"
	for _, name := range []string{"rg", "fd", "fdfind", "grep", "find", "ls"} {
		script := "#!/bin/sh\necho " + name + " >> " + used + "\necho wrong\n"
		if err := os.WriteFile(programs+"/"+name, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{programs, t.TempDir()} {
		t.Setenv("PATH", path)
		box := allTools(rig.Workspace, t.TempDir(), nil)
		for tool, want := range map[string]string{find.Name: "d/needle", grep.Name: "d/needle:1: here it is",
			"ls": ".gitignore\nd/\nneedle.log"} {
			args := `{"pattern":"needle*"}`
			if tool == grep.Name {
				args = `{"pattern":"here"}`
			}
			if got, isError := rig.Text(box[tool], args); isError || got != want {
				t.Errorf("%s with PATH %s: error %v, %q", tool, path, isError, got)
			}
		}
	}
	if names, err := os.ReadFile(used); !os.IsNotExist(err) {
		t.Errorf("used %s, %v", names, err)
	}
}
