package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// The roles of docs/operations.md, by what their rows begin with.
const (
	roleSender   = "sender of commands"
	roleViewer   = "viewer of"
	roleWorker   = "toolworker for"
	roleAsker    = "asks models"
	roleModels   = "`--serve-models`"
	roleKeys     = "key service"
	roleKeyUser  = "`--key-service`"
	roleRunner   = "runner, and"
	roleNoKeys   = "runner without keys"
	roleTells    = "runner that tells"
	roleQuerier  = "asks about"
	roleLister   = "lists sessions"
	roleApprover = "approver of"
	roleProfiles = "writer of profiles"
	roleDeleter  = "deletes, archives and restores sessions, all of them"
	roleHook     = "hook service"
	permissionsH = "## Permissions"
)

// permissionRows reads the table of roles: what a role may publish, and what it may subscribe to.
func permissionRows(t *testing.T) (rows [][3]string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), permissionsH+"\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		if cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|"); len(cells) == 3 {
			rows = append(rows, [3]string{strings.TrimSpace(cells[0]), cells[1], cells[2]})
		}
	}
	return rows
}

// granted is what a user of these roles may do. inboxes are the users whose inboxes a role with others' may publish to.
func granted(t *testing.T, user string, inboxes []string, roles ...string) *server.Permissions {
	t.Helper()
	p := &server.Permissions{Publish: new(server.SubjectPermission), Subscribe: new(server.SubjectPermission)}
	for _, role := range roles {
		rows := permissionRows(t)
		i := slices.IndexFunc(rows, func(row [3]string) bool { return strings.HasPrefix(row[0], role) })
		if i < 0 {
			t.Fatalf("docs/operations.md has no row %q", role)
		}
		grant(t, p, rows[i], user, inboxes)
	}
	if len(p.Publish.Allow) == 0 {
		p.Publish.Deny = append(p.Publish.Deny, ">")
	}
	return p
}

// grant adds a row. One that begins with "as runner" is the runner's, without what it denies.
func grant(t *testing.T, p *server.Permissions, row [3]string, user string, inboxes []string) {
	t.Helper()
	for i, to := range []*server.SubjectPermission{p.Publish, p.Subscribe} {
		cell, denied, _ := strings.Cut(row[i+1], "denied ")
		if strings.Contains(cell, "as runner") {
			rows := permissionRows(t)
			cell = rows[slices.IndexFunc(rows, func(row [3]string) bool { return strings.HasPrefix(row[0], roleRunner) })][i+1]
		}
		if strings.Contains(cell, "own inbox") {
			to.Allow = append(to.Allow, ownInbox(user))
		}
		for _, subject := range subjectsIn(cell) {
			switch subject {
			case "allow_responses":
				p.Response = &server.ResponsePermission{MaxMsgs: 1, Expires: time.Minute}
			case "_INBOX_<user>.>":
				for _, other := range inboxes {
					to.Allow = append(to.Allow, ownInbox(other))
				}
			default:
				to.Allow = append(to.Allow, subject)
			}
		}
		to.Deny = append(to.Deny, subjectsIn(denied)...)
	}
}

func ownInbox(user string) string { return inboxPrefix(user) + ".>" }

func inboxPrefix(user string) string { return "_INBOX_" + user }

// A subject may be followed by the queue it is for.
var subjectRE = regexp.MustCompile("`([^`]+)`(?: \\(queue `([^`]+)`\\))?")

// subjectsIn are the subjects that a cell names, its braces written out.
func subjectsIn(cell string) (subjects []string) {
	for _, found := range subjectRE.FindAllStringSubmatch(cell, -1) {
		for _, s := range writtenOut(strings.ReplaceAll(found[1], "<worker>", "w1")) {
			if found[2] != "" {
				s += " " + found[2]
			}
			subjects = append(subjects, s)
		}
	}
	return subjects
}

func writtenOut(s string) (all []string) {
	from := strings.IndexByte(s, '{')
	if from < 0 {
		return []string{s}
	}
	to := from + strings.IndexByte(s[from:], '}')
	for _, choice := range strings.Split(s[from+1:to], ",") {
		all = append(all, writtenOut(s[:from]+choice+s[to+1:])...)
	}
	return all
}
