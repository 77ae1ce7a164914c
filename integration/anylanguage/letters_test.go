//go:build unix

package anylanguage_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/bus/permissions"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

// An operator sends every dead letter again, of which a worker has written some: with exactly the permissions of a
// worker, and with what it likes in the headers. Only a command goes, to its own session, with headers of a command.
func TestDeadLettersDoNotChooseTheirTarget(t *testing.T) {
	t.Parallel()
	needsNode(t)
	config, err := permissions.Users(schemas.Subjects{}, []permissions.User{{Name: "admin", Password: "admin"}},
		[]permissions.User{{Name: "w", Password: "w", Queue: "bash", Worker: "w",
			Roles: []permissions.Name{permissions.Worker}}})
	if err != nil {
		t.Fatal(err)
	}
	addr := strings.TrimPrefix(bustest.Configured(t, config+"\nno_auth_user: admin\n").ClientURL(), "nats://")
	sys := system.Start(t, "nats://admin:admin@"+addr, system.Options{Model: chunked(t, scripted.Text("done"))})
	write := func(as, stream, session, subject, reason string, more ...string) {
		t.Helper()
		nc, err := nats.Connect("nats://"+as+":"+as+"@"+addr, nats.CustomInboxPrefix("_INBOX_"+as))
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		letter := nats.NewMsg(schemas.Subjects{}.Dead(stream, session))
		letter.Header.Set(schemas.HeaderDeadSubject, subject)
		letter.Header.Set(schemas.HeaderDeadReason, reason)
		for i := 0; i < len(more); i += 2 {
			letter.Header.Set(more[i], more[i+1])
		}
		if letter.Data = []byte("hello"); strings.HasPrefix(subject, "$JS") {
			letter.Data = nil
		}
		js, err := jetstream.New(nc)
		if err == nil {
			_, err = js.PublishMsg(bustest.Deadline(t), letter)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	// The session knows the id of the command in the letter.
	run, err := sys.Session(t, "s1").Prompt(t.Context(), client.Text("first"), client.WithID("p1"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Wait(bustest.Deadline(t)); err != nil {
		t.Fatal(err)
	}
	write("admin", "AGENT_CMD", "s1", "agent.cmd.3.s1.prompt", "delivery: tried 50 times", "ce-id", "p1",
		"ce-source", "/x", "ce-specversion", "1.0", "ce-type", "dev.loopbus.prompt.v1", "Content-Type", "text/plain",
		"Status", "404",
		"Loopbus-Reply-To", "_INBOX.x", schemas.HeaderDispatch, "-", "X", "y")
	write("admin", "AGENT_CMD", "s3", "agent.cmd.3.s3.prompt", "x") // without an id
	write("w", "AGENT_TOOL", "s2", "agent.cmd.s2.prompt", "x", "Loopbus-Dead-Stream", "AGENT_CMD")
	write("admin", "AGENT_CMD", "s2", "agent.cmd.3.s2.subagent_abort", "x")
	write("w", "AGENT_TOOL", "s2", "$JS.API.STREAM.DELETE.AGENT_EVT", "x")
	write("w", "AGENT_TOOL", "s2", "agent.tool.ls.s2.c1", "x")
	write("admin", "AGENT_CMD", "s2", "agent.cmd.3.s1.prompt", "x")
	write("admin", "AGENT_CMD", "s2", "agent.evt.s2", "x")
	write("admin", "AGENT_CMD", "s2", "agent.cmd.s2.prompt", "foreign: it is an answer of a NATS server")
	write("admin", "AGENT_CMD", "s2", "agent.cmd.s2.prompt", "x", schemas.HeaderDeadSize, "900000")

	var got []string
	startScript(t, "nats://"+addr, "letters").lines(func(l line) { got = append(got, l.Text) })
	const not = "AGENT_%: the dead letter cannot be sent again: "
	no := func(stream, why string) string { return strings.Replace(not, "%", stream, 1) + why }
	if d := cmp.Diff([]string{no("CMD.s2", "it was cut"), no("CMD.s2", "no client has sent it"),
		no("CMD.s2", "it is no command for s2"), no("CMD.s2", "it is no command for s2"),
		no("TOOL.s2", "only commands are sent again"), no("TOOL.s2", "only commands are sent again"),
		no("CMD.s2", "only runners send it"), no("TOOL.s2", "only commands are sent again"),
		"AGENT_CMD.s3: agent.cmd.s3.prompt",
		"AGENT_CMD.s1: agent.cmd.s1.prompt, Content-Type: text/plain, ce-id: p1, ce-source: /x, ce-specversion: 1.0, " +
			"ce-type: dev.loopbus.prompt.v1"}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	told := map[string][]string{"s1": {"first", "hello"}, "s3": {"hello"}}
	for session, want := range told {
		sys.Until(t, session, "the end of its runs", system.Ends(len(want)))
	}
	sys.EmptyInbox(t)
	for session, want := range told {
		if d := cmp.Diff(want, system.Said(sys.LogOf(t, session))); d != "" {
			t.Errorf("%s was told (-want +got):\n%s", session, d)
		}
	}
	if log := sys.LogOf(t, "s2"); len(log) > 0 {
		t.Errorf("s2 has %v", system.TypesOf(log))
	}
}
