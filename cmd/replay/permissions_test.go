package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/permissions"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// TestCommandsWithTheirRoles has a user for each row of the table that is about replay, with its roles and no more. Its
// commands work; with none of the roles they end with the name of what is missing.
func TestCommandsWithTheirRoles(t *testing.T) {
	t.Parallel()
	one := "runner tools --session S, replay show, state, export S"
	all := "replay list, tree, diff, verify, export --all"
	rows := map[string]string{"one": one, "prover": "replay verify S", "all": all, "importer": "replay import"}
	users := []permissions.User{{Name: "nobody", Password: "nobody", Roles: []permissions.Name{permissions.Sender},
		Session: "s1"}}
	for name, row := range rows {
		users = append(users, permissions.User{Name: name, Password: name, Roles: bustest.RolesOf(t, row), Session: "s1"})
	}
	url := serveUsers(t, users)
	conn, err := bus.Connect(t.Context(), bus.ConnOptions{URL: strings.Replace(url, "//", "//admin:admin@", 1)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	writeSession(t, conn)
	// as has a user begin a command. Whoever is not asked by the server repeats what it does not answer.
	as := func(user string, args ...string) result {
		return invoke(t, nil, append(args, "--nats", strings.Replace(url, "//", "//"+user+":"+user+"@", 1),
			"--inbox-prefix", "_INBOX_"+user)...)
	}
	expect(t, as("one", "show", "s1"), cli.StatusOK, "", "")
	expect(t, as("one", "state", "s1"), cli.StatusOK, `"s1"`, "")
	exported := as("one", "export", "s1", "--format", "pi")
	expect(t, exported, cli.StatusOK, `"type":"session"`, "")
	expect(t, as("one", "export", "s1"), cli.StatusOK, "s1/1", "")
	expect(t, as("prover", "verify", "s1"), cli.StatusOK, "s1: ok", "")
	expect(t, as("all", "list"), cli.StatusOK, "s1", "")
	expect(t, as("all", "verify"), cli.StatusOK, "1 session, 0 bad", "")
	expect(t, as("all", "export", "--all"), cli.StatusOK, "s1/1", "")
	file := filepath.Join(t.TempDir(), "s.jsonl")
	if err := os.WriteFile(file, []byte(exported.stdout), 0o600); err != nil {
		t.Fatal(err)
	}
	expect(t, as("importer", "import", file, "--session", "s2"), cli.StatusOK, "s2", "")
	expect(t, as("one", "show", "s2"), cli.StatusBad, "", "ermission")
	for _, args := range [][]string{{"show", "s1"}, {"state", "s1"}, {"verify", "s1"}, {"export", "s1"}, {"list"},
		{"import", file, "--session", "s3"}} {
		expect(t, as("nobody", args...), cli.StatusBad, "", "ermission")
	}
}

func writeSession(t *testing.T, conn *bus.Conn) {
	t.Helper()
	if err := streams.Setup(t.Context(), conn, streams.Options{}); err != nil {
		t.Fatal(err)
	}
	store, err := eventstore.New(conn.Events(), eventstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	(&world{t: t, conn: conn, store: store}).writer("s1").append(&schemas.ErrorEvent{Code: "sample", Message: "an error"})
}

// serveUsers starts a server that knows users, and one that may do everything.
func serveUsers(t *testing.T, users []permissions.User) (url string) {
	t.Helper()
	config, err := permissions.Users(schemas.Subjects{}, []permissions.User{{Name: "admin", Password: "admin"}}, users)
	if err != nil {
		t.Fatal(err)
	}
	return bustest.Configured(t, config).ClientURL()
}
