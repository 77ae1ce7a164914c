//go:build unix

package processes_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/permissions"
	"github.com/loopbus/loopbus/schemas"
)

// tried is a command of the table of roles that commands need, run by a user with these roles.
type tried struct {
	program string
	args    []string
	roles   []permissions.Name
	want    string
	alone   bool // run only with all of its roles and alone, not also without one of their subjects
}

// rowsOf returns the commands of a table's rows, except those that serve.
func rowsOf(t *testing.T) (all []tried) {
	t.Helper()
	for _, c := range permissions.Commands() {
		add := func(program, args, want string) {
			all = append(all, tried{program: program, args: strings.Fields(args), roles: c.Roles, want: want})
		}
		switch c.Name {
		case "runner serve, toolworker":
		case "replay import", "runner sessions list", "runner sessions export S", "runner sessions delete, archive, restore",
			"console": // TestCommandsWithTheirRoles of the programs, TestPermissions of integration/deploy
		case "runner run, runner chat":
			add("runner", "run --session s1 go", "all done")
			add("runner", "chat --session s1", "all done")
		case "runner list, runner tools, runner profiles":
			add("runner", "list", "r1")
			add("runner", "tools", "bash")
			add("runner", "profiles", "PROFILE")
		case "runner tools --session S, replay show, state, export S":
			add("runner", "tools --session s1", "bash")
			add("replay", "show s1", "all done")
			add("replay", "state s1", "no_tool_calls")
			add("replay", "export s1", "agent_end")
		case "replay verify S":
			add("replay", "verify s1", "s1: ok")
		case "replay rerun":
			add("replay", "rerun s1 --at 1", "1 call answered from the log of s1")
			add("replay", "rerun s1 --at 1 --model rehearsal", "0 not in it")
		case "replay list, tree, diff, verify, export --all":
			add("replay", "list", "s1")
			add("replay", "tree s1", "s1")
			add("replay", "diff s1 s1", "the same")
			all[len(all)-1].alone = true // other commands would extend s1 between its two reads
			add("replay", "verify", "0 bad")
			add("replay", "export --all", "agent_end")
		default:
			t.Fatalf("no test runs the command of the table's row %s", c.Name)
		}
	}
	return all
}

// TestCommandsKeepToTheirRoles checks that every command works with only the permissions of its roles, and so do
// runners and workers. Without one of the permissions, a command must report which one is missing. A permission that
// no command needs fails the test, too.
func TestCommandsKeepToTheirRoles(t *testing.T) {
	t.Parallel()
	rows := rowsOf(t)
	users := []permissions.User{{Name: "r1", Password: "r1", Roles: []permissions.Name{permissions.Runner}}}
	missing := map[string]string{} // by user, a subject that the user lacks
	for i, r := range rows {
		add := func(name, subject string) {
			missing[name] = subject
			users = append(users, permissions.User{Name: name, Password: name, Roles: r.roles, Session: "s1"})
		}
		add(userOf(i, -1), "")
		for n, subject := range subjectsOf(t, r.roles...) {
			add(userOf(i, n), subject)
		}
	}
	p := configured(t, users, missing)
	w := &world{t: t}
	script := p.file("script.json", `[{"toolCalls":[{"name":"bash","arguments":{"command":"echo reached"}}]}`+
		strings.Repeat(`,{"text":"all done"}`, 100)+`]`)
	p.as("r1")
	r := w.run(p.command("runner", "--id", "r1", "--model", "scripted", "--script", script, "--http", "127.0.0.1:0",
		"--log-json", "--partitions", "8", "--tools", "bash"))
	r.awaitReady()
	works := func(t *testing.T, i int) {
		c, at := rows[i], &place{t: t, url: p.url}
		at.as(userOf(i, -1))
		if out, err := at.run(c.program, c.args...); err != nil || !strings.Contains(out, c.want) {
			t.Errorf("%s %v as %v: %v in:\n%s", c.program, c.args, c.roles, err, out)
		}
	}
	works(t, 0) // creates the session
	t.Run("with", func(t *testing.T) {
		for i, c := range rows {
			if i > 0 && !c.alone {
				t.Run(c.program+" "+strings.Join(c.args, " "), func(t *testing.T) { t.Parallel(); works(t, i) })
			}
		}
	})
	for i, c := range rows {
		if c.alone {
			works(t, i)
		}
	}
	if strings.Contains(strings.ToLower(r.output()), "permissions violation") {
		t.Errorf("the runner lacks a permission:\n%s", r.output())
	}
	if t.Failed() {
		return
	}
	t.Run("without", func(t *testing.T) {
		for _, role := range permissions.Roles() {
			if !slices.ContainsFunc(rows, func(c tried) bool { return slices.Contains(c.roles, role.Name) }) {
				continue
			}
			for _, subject := range subjectsOf(t, role.Name) {
				if slices.ContainsFunc([]string{".cmd.", "AGENT_UPD", ".DELETE."}, func(part string) bool {
					return strings.Contains(subject, part)
				}) {
					continue // no command fails without these: other kinds of commands, joined replies, best-effort deletions
				}
				t.Run(subject, func(t *testing.T) { t.Parallel(); p.missing(t, rows, role.Name, subject) })
			}
		}
	})
}

// missing runs the commands that need a role, without one of its subjects, until one fails. That one has to report why.
func (p *place) missing(t *testing.T, rows []tried, role permissions.Name, subject string) {
	for i, c := range rows {
		n := slices.Index(subjectsOf(t, c.roles...), subject)
		if !slices.Contains(c.roles, role) || n < 0 || c.alone {
			continue
		}
		at := &place{t: t, url: p.url}
		at.as(userOf(i, n))
		out, err := at.run(c.program, c.args...)
		if err == nil {
			continue
		}
		fixed, _, _ := strings.Cut(subject, ".*")
		if !strings.Contains(out, strings.TrimSuffix(fixed, ".>")) ||
			!strings.Contains(strings.ToLower(out), "permissions violation") {
			t.Errorf("%s %v does not report the missing permission:\n%s", c.program, c.args, out)
		}
		return
	}
	t.Errorf("no command with the role %s needs the subject", role)
}

// userOf returns the user of a command that lacks the nth subject of its roles.
func userOf(i, n int) string { return fmt.Sprintf("u%d-%d", i, n+1) }

// subjectsOf returns the subjects that roles may publish.
func subjectsOf(t *testing.T, roles ...permissions.Name) []string {
	t.Helper()
	g, err := permissions.User{Name: "u", Roles: roles, Session: "s1"}.Grant(schemas.Subjects{})
	if err != nil {
		t.Fatal(err)
	}
	return g.Publish
}

// configured starts a server with users, some of which lack a subject, and returns the place of one of them.
func configured(t *testing.T, users []permissions.User, missing map[string]string) *place {
	t.Helper()
	text, err := permissions.Users(schemas.Subjects{}, nil, users)
	if err != nil {
		t.Fatal(err)
	}
	p := &place{t: t}
	o, err := server.ProcessConfigFile(p.file("nats.conf", text))
	if err != nil {
		t.Fatalf("%v in:\n%s", err, text)
	}
	for _, u := range o.Users {
		u.Permissions.Publish.Allow = slices.DeleteFunc(u.Permissions.Publish.Allow,
			func(allowed string) bool { return allowed == missing[u.Username] })
	}
	o.JetStream = true
	p.url = bustest.NATS(t, o).ClientURL()
	return p
}

// as returns the place with programs that connect as a user.
func (p *place) as(user string) {
	p.flags = []string{"--nats", strings.Replace(p.url, "//", "//"+user+":"+user+"@", 1),
		"--inbox-prefix", "_INBOX_" + user}
}
