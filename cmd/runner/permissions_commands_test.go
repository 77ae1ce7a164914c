package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/permissions"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// TestCommandsWithTheirRoles has a user for each row of the table that is about the runner, with its roles and no more.
// Its commands work; with other roles they end with the name of what is missing.
func TestCommandsWithTheirRoles(t *testing.T) {
	t.Parallel()
	rows := map[string]string{
		"serves": "runner serve, toolworker", "runs": "runner run, runner chat",
		"lists": "runner list, runner tools, runner profiles",
		"tools": "runner tools --session S, replay show, state, export S", "sessions": "runner sessions list",
		"exports": "runner sessions export S", "deletes": "runner sessions delete, archive, restore",
	}
	roles := map[string][]permissions.Name{"nobody": {permissions.Approver}}
	for user, row := range rows {
		roles[user] = bustest.RolesOf(t, row)
	}
	g := newGuarded(t, roles)
	w := &world{t: t, url: g.url, conn: g.conn(admin), root: t.TempDir()}
	if err := streams.Setup(t.Context(), w.conn, streams.Options{}); err != nil {
		t.Fatal(err)
	}
	var err error
	if w.store, err = eventstore.New(w.conn.Events(), eventstore.Options{}); err != nil {
		t.Fatal(err)
	}
	as := func(user string, args ...string) []string {
		return append(args, "--nats", g.as(user), "--inbox-prefix", inboxPrefix(user))
	}
	script := write(t, "script.json", `{"loop":true,"responses":[{"text":"said"}]}`)
	start(t, nil, as("serves", "serve", "--model", "scripted", "--tools", "bash", "--script", script,
		"--http", "127.0.0.1:0", "--log-json")...).ready()
	w.prompt("s1")
	w.until("s1", 1, schemas.EventAgentEnd)
	works := func(want, user string, args ...string) {
		t.Helper()
		p := start(t, nil, as(user, args...)...).wantExit(0)
		if got := p.stdout.String(); !strings.Contains(got, want) {
			t.Errorf("%s %v: %s%s", user, args, got, p.stderr.String())
		}
	}
	denied := func(user string, args ...string) {
		t.Helper()
		p := start(t, nil, as(user, args...)...).wantExit(1)
		if got := p.stderr.String(); !strings.Contains(strings.ToLower(got), "permission") {
			t.Errorf("%s %v: %s", user, args, got)
		}
	}
	file := filepath.Join(t.TempDir(), "s1.jsonl")
	works("said", "runs", "run", "--session", "s1", "hello")
	works("RUNNER", "lists", "list")
	works("bash", "lists", "tools")
	works("", "lists", "profiles")
	works("", "tools", "tools", "--session", "s1")
	works("s1", "sessions", "sessions", "list")
	works("agent_end", "exports", "sessions", "export", "s1")
	denied("exports", "sessions", "archive", "s1", "--to", file)
	works("s1: deleted", "deletes", "sessions", "archive", "s1", "--to", file, "--delete")
	works("s1: restored", "deletes", "sessions", "restore", file)
	denied("nobody", "list")
	denied("nobody", "tools")
	denied("nobody", "sessions", "list")
	denied("nobody", "sessions", "delete", "s1")
	works("s1: deleted", "deletes", "sessions", "delete", "s1")
}
