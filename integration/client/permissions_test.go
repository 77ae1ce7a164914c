package client_test

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

// permissionsOf returns the permissions of a row in the table of docs/client.md, whose methods start with what, with
// the braces expanded.
func permissionsOf(t *testing.T, user string, rows ...string) *server.Permissions {
	t.Helper()
	text, err := os.ReadFile("../../docs/client.md")
	if err != nil {
		t.Fatal(err)
	}
	p := &server.Permissions{Publish: &server.SubjectPermission{Allow: []string{}},
		Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX_" + user + ".>"}}}
	for _, what := range rows {
		found := false
		for line := range strings.Lines(string(text)) {
			if cells := strings.Split(line, "|"); len(cells) == 5 && strings.HasPrefix(strings.TrimSpace(cells[1]), what) {
				found = true
				p.Publish.Allow = append(p.Publish.Allow, subjects(cells[2])...)
				p.Subscribe.Allow = append(p.Subscribe.Allow, subjects(cells[3])...)
			}
		}
		if !found {
			t.Fatalf("docs/client.md has no row %q", what)
		}
	}
	return p
}

var subjectRE = regexp.MustCompile("`([^`]+)`")

func subjects(cell string) (list []string) {
	for _, found := range subjectRE.FindAllStringSubmatch(cell, -1) {
		list = append(list, writtenOut(found[1])...)
	}
	return list
}

func writtenOut(s string) (all []string) {
	before, rest, ok := strings.Cut(s, "{")
	if !ok {
		return []string{s}
	}
	choices, after, _ := strings.Cut(rest, "}")
	for choice := range strings.SplitSeq(choices, ",") {
		all = append(all, writtenOut(before+choice+after)...)
	}
	return all
}

// guarded starts a server with users, of which admin has all permissions, and returns the URL of each.
func guarded(t *testing.T, users map[string]*server.Permissions) (as func(user string) string) {
	t.Helper()
	list := []*server.User{{Username: "admin", Password: "admin"}}
	for name, p := range users {
		list = append(list, &server.User{Username: name, Password: name, Permissions: p})
	}
	s := bustest.NATS(t, &server.Options{JetStream: true, Users: list})
	return func(user string) string {
		return strings.Replace(s.ClientURL(), "nats://", "nats://"+user+":"+user+"@", 1)
	}
}

// Each method needs only the permissions in docs/client.md, and users without permission cannot read a session.
func TestLeastPermissions(t *testing.T) {
	t.Parallel()
	const (
		send, follow, blobs, approvals, tools = "`Send`", "`Watch`", "events over", "`Client.Approvals`", "`Client.Tools`"
		query, sessions                       = "`State`", "`Client.Sessions`"
	)
	as := guarded(t, map[string]*server.Permissions{
		"sender": permissionsOf(t, "sender", send), "prompter": permissionsOf(t, "prompter", send, follow, blobs),
		"viewer": permissionsOf(t, "viewer", follow, query),
		"lister": permissionsOf(t, "lister", approvals, tools, sessions),
	})
	model := scripted.New(scripted.Text(strings.Repeat("long ", 100<<10)), scripted.Text("short"))
	sys := system.Start(t, as("admin"), system.Options{Model: model})
	answer(t, sys)
	violations := make(chan error, 100)
	user := func(name string) *client.Client {
		nc, err := nats.Connect(as(name), nats.CustomInboxPrefix("_INBOX_"+name),
			nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { violations <- err }))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		c, err := client.New(nc, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	sender, prompter, viewer, lister := user("sender"), user("prompter"), user("viewer"), user("lister")
	sent, err := sender.Session("s1").Send(deadline(t), &schemas.Prompt{Input: client.Text("go")})
	if err != nil {
		t.Fatal(err)
	}
	if res := result(t, prompter.Session("s1").Run(sent.ID)); len(res.Text()) != 500<<10 {
		t.Errorf("the reply has %d bytes", len(res.Text()))
	}
	if res := result(t, prompt(t, prompter.Session("s1"), "again")); res.Text() != "short" {
		t.Errorf("got %+v", res)
	}
	last := uint64(len(sys.LogOf(t, "s1")))
	for item, err := range viewer.Session("s1").Watch(deadline(t), last) {
		if err != nil || item.Event.Type() != schemas.EventAgentEnd {
			t.Errorf("the viewer sees %+v, %v", item, err)
		}
		break
	}
	if state, err := viewer.Session("s1").State(deadline(t)); err != nil || state.Seq != last {
		t.Errorf("state %+v, %v", state, err)
	}
	if _, err := lister.Sessions(deadline(t), schemas.SessionsQuery{}); err != nil {
		t.Error(err)
	}
	list, err := lister.Tools(deadline(t))
	if err != nil || len(list) != 1 {
		t.Errorf("tools %+v, %v", list, err)
	}
	soon, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	for a, err := range lister.Approvals(soon) {
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("approval %+v, %v", a, err)
		}
	}
	select {
	case err := <-violations:
		t.Errorf("a method needs more: %v", err)
	default:
	}
	t.Run("no more", func(t *testing.T) { notAllowed(t, sender, viewer, lister) })
}

// notAllowed checks that each forbidden method returns an error that says so, and does not hang.
func notAllowed(t *testing.T, sender, viewer, lister *client.Client) {
	watch := func(s *client.Session) error {
		for _, err := range s.Watch(deadline(t), 1) {
			return err
		}
		return nil
	}
	for name, try := range map[string]func() error{
		"sender watches": func() error { return watch(sender.Session("s1")) },
		"sender sends to another": func() error {
			_, err := sender.Session("s2").Send(deadline(t), &schemas.Steer{Input: client.Text("x")})
			return err
		},
		"viewer watches another": func() error { return watch(viewer.Session("s2")) },
		"viewer prompts": func() error {
			_, err := viewer.Session("s1").Send(deadline(t), &schemas.Prompt{Input: client.Text("x")})
			return err
		},
		"lister asks for a state": func() error {
			_, err := lister.Session("s1").State(deadline(t))
			return err
		},
		"lister watches": func() error { return watch(lister.Session("s1")) },
	} {
		if err := try(); !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
