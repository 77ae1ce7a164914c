package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/schemas"
)

// A session is listed, exported, archived, deleted and restored by command, and goes on.
func TestSessionsCommands(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runner("r1", `[{"text":"said by r1"}]`)
	w.prompt("s1")
	before := w.until("s1", 1, schemas.EventAgentEnd)
	file := filepath.Join(t.TempDir(), "s1.jsonl")
	does := func(want string, args ...string) {
		t.Helper()
		var got string
		eventually(t, strings.Join(args, " ")+" says "+want, func() bool {
			var err error
			got, err = w.listed(append([]string{"sessions"}, args...)...)
			return err == nil && strings.Contains(got, want)
		})
	}
	fails := func(want string, args ...string) {
		t.Helper()
		got, err := w.listed(append([]string{"sessions"}, args...)...)
		if err == nil || !strings.Contains(got+err.Error(), want) {
			t.Errorf("%v: %s, %v, want %q", args, got, err, want)
		}
	}
	does("s1", "list")
	does(`"session":"s1"`, "list", "--json", "--status", "idle")
	does(`"type":"dev.loopbus.agent_end.v1"`, "export", "s1")
	fails("no such session", "export", "none")
	fails("no such session", "delete", "none")
	fails("illegal subject", "delete", "a b")
	fails("no such session", "archive", "none", "--to", file)
	does("s1: deleted", "archive", "s1", "--to", file, "--delete")
	if info, err := os.Stat(file); err != nil || info.Size() == 0 {
		t.Error(err)
	}
	fails("no such session", "delete", "s1")
	does("s1: restored", "restore", file)
	if after := w.until("s1", 1, schemas.EventAgentEnd); len(after) != len(before) {
		t.Errorf("%d events, before %d", len(after), len(before))
	}
	w.prompt("s1")
	w.until("s1", 2, schemas.EventAgentEnd)
	fails("session exists", "restore", file)
	does("s1: deleted", "delete", "s1")
	does("SESSION", "list", "--idle", "1h")
}

// A group of commands without a command lists those in it, and so does its help.
func TestSessionsListsItsCommands(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args, want string
		usage      bool
	}{
		{"sessions", "sessions: no command of this group given", true},
		{"sessions lst", `unknown command "sessions lst", did you mean sessions list?`, true},
		{"help sessions", "sessions archive SESSION", false},
	} {
		var out strings.Builder
		err := run(t.Context(), strings.Fields(c.args), func(string) string { return "" }, &out, &out)
		text := out.String()
		var usage cli.UsageError
		if errors.As(err, &usage) {
			text = err.Error()
		}
		if errors.As(err, &usage) != c.usage || !strings.Contains(text, c.want) || strings.Contains(text, "\n  serve ") ||
			!strings.Contains(text, "sessions restore FILE") {
			t.Errorf("runner %s: %v\n%s", c.args, err, text)
		}
	}
}
