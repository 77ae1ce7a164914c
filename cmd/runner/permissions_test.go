package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/dial"
	"github.com/loopbus/loopbus/bus/models"
	"github.com/loopbus/loopbus/bus/permissions"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/providers/keys"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

// admin is the user of the tests, who may do everything.
const admin = "admin"

// guarded is a server that knows its users, with the permissions of their roles.
type guarded struct {
	t   *testing.T
	url string // nats://host:port
}

// newGuarded starts a server with a user for each entry: its roles. Whoever answers in inboxes may do so in anybody's.
func newGuarded(t *testing.T, roles map[string][]permissions.Name) *guarded {
	t.Helper()
	var users []permissions.User
	names := slices.Sorted(maps.Keys(roles))
	for _, name := range names {
		users = append(users, permissions.User{Name: name, Password: name, Roles: roles[name], Session: "s1",
			Queue: "bash", Worker: "w1", Hook: "beforeToolCall.policy", Answers: names})
	}
	config, err := permissions.Users(schemas.Subjects{}, []permissions.User{{Name: admin, Password: admin}}, users)
	if err != nil {
		t.Fatal(err)
	}
	return &guarded{t, serveConfig(t, config)}
}

// serveConfig starts a server with a configuration and returns its URL.
func serveConfig(t *testing.T, config string) string {
	t.Helper()
	return bustest.Configured(t, config).ClientURL()
}

func inboxPrefix(user string) string { return "_INBOX_" + user }

// as is the URL of a user.
func (g *guarded) as(user string) string {
	return strings.Replace(g.url, "nats://", "nats://"+user+":"+user+"@", 1)
}

// conn connects as a user, whose replies come to an inbox of his own.
func (g *guarded) conn(user string) *bus.Conn {
	g.t.Helper()
	c, err := bus.Connect(g.t.Context(), bus.ConnOptions{URL: g.as(user), Name: user,
		Dial: dial.Settings{InboxPrefix: inboxPrefix(user)}})
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(c.Close)
	return c
}

// TestRunnersKeepToTheirPermissions has a runner that may do what the documents say and asks its model at another one,
// which may do no more either.
func TestRunnersKeepToTheirPermissions(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, map[string][]permissions.Name{
		"runner":  {permissions.Runner, permissions.ModelServer, permissions.RunnerReplies},
		"keyless": {permissions.KeylessRunner, permissions.RunnerReplies}, "worker": {permissions.Runner},
		"sender": {permissions.Sender}, "querier": {permissions.Querier}, "lister": {permissions.Lister},
	})
	w := &world{t: t, url: g.as("worker"), conn: g.conn(admin), root: t.TempDir()}
	if err := streams.Setup(t.Context(), w.conn, streams.Options{}); err != nil {
		t.Fatal(err)
	}
	var err error
	if w.store, err = eventstore.New(w.conn.Events(), eventstore.Options{}); err != nil {
		t.Fatal(err)
	}
	script := write(t, "script.json", `[{"toolCalls":[{"name":"bash","arguments":{"command":"echo said by a `+
		`tool"}}]},{"text":"said behind the bus"}]`)
	common := []string{"--model", "bus/scripted", "--http", "127.0.0.1:0", "--log-json"}
	runners := []*process{
		start(t, nil, append(common, "--nats", g.as("runner"), "--inbox-prefix", inboxPrefix("runner"), "--id", "serves",
			"--tools", "bash", "--serve-models", "--script", script)...),
		start(t, nil, append(common, "--nats", g.as("keyless"), "--inbox-prefix", inboxPrefix("keyless"), "--id", "asks")...),
	}
	for _, p := range runners {
		p.ready()
	}
	for _, session := range []string{"s1", "s2", "s3", "s4"} { // some to each
		w.prompt(session)
		for _, e := range w.until(session, 1, schemas.EventAgentEnd) {
			if end, ok := e.Data.(*schemas.AgentEnd); ok && !end.TerminationReason.Normal() {
				t.Errorf("session %s ends with %s: %s", session, end.TerminationReason, end.ErrorMessage)
			}
		}
	}
	g.queried("s1")
	for _, p := range runners {
		if strings.Contains(strings.ToLower(p.stderr.String()), "permissions violation") {
			t.Errorf("a runner tried what it may not:\n%s", p.stderr.String())
		}
	}
}

// queried asks about a session, as those may who may do nothing else: each gets an answer. Senders are told the
// outcome.
func (g *guarded) queried(session string) {
	g.t.Helper()
	for user, subject := range map[string]string{"querier": "agent.query." + session + ".state",
		"lister": "agent.query.sessions"} {
		m, err := g.conn(user).NATS().Request(subject, nil, deadline)
		if err != nil || m.Header.Get(micro.ErrorHeader) != "" || !strings.Contains(string(m.Data), `"`+session+`"`) {
			g.t.Errorf("%s at %s: %v, %v", user, subject, m, err)
		}
	}
	sender := g.conn("sender").NATS()
	inbox := sender.NewInbox()
	outcomes, err := sender.SubscribeSync(inbox)
	if err != nil {
		g.t.Fatal(err)
	}
	m := &nats.Msg{Subject: "agent.cmd." + session + ".abort", Data: []byte(`{"reason":"x"}`), Header: nats.Header{
		schemas.HeaderReply: {schemas.ReplyOutcome}, schemas.HeaderReplyTo: {inbox}}}
	if err := sender.PublishMsg(m); err != nil {
		g.t.Fatal(err)
	}
	if m, err := outcomes.NextMsg(deadline); err != nil || !strings.Contains(string(m.Data), `"code":"no_run"`) {
		g.t.Errorf("the outcome of an abort with nothing to abort: %v, %v", m, err)
	}
}

// TestModelsAndKeysWithTheirPermissions has every role of a model call and of a key as a user of its own.
func TestModelsAndKeysWithTheirPermissions(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, map[string][]permissions.Name{"asker": {permissions.ModelUser},
		"models": {permissions.ModelServer}, "keys": {permissions.KeyService}, "keyuser": {permissions.KeyUser}})
	ended := make(chan struct{})
	played, err := scripted.Parse([]byte(`[{"text":"said behind the bus"}]`))
	if err != nil {
		t.Fatal(err)
	}
	s := models.NewServer(g.conn("models"), models.ServerOptions{Model: played, StopTimeout: time.Millisecond})
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		defer close(ended)
		_ = s.Run(ctx)
	}()
	t.Cleanup(func() { stop(); <-ended })
	<-s.Ready()

	client := models.NewClient(g.conn("asker"), models.ClientOptions{IdleTimeout: deadline})
	ask := func(ctx context.Context) (last *schemas.AssistantMessage) {
		text := strings.Repeat("all work and no play ", 60_000) // more than one message carries
		for e := range client.Stream(ctx, schemas.ModelRequest{Model: schemas.ModelRef{ID: "scripted"},
			Messages: schemas.Messages{&schemas.UserMessage{Content: schemas.Contents{schemas.Text{Text: text}}}}}) {
			last = e.Message
		}
		return last
	}
	limited, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	if m := ask(limited); m.Content.JoinText() != "said behind the bus" {
		t.Errorf("the model said %q, %s %s", m.Content.JoinText(), m.StopReason, m.ErrorMessage)
	}

	if _, err := g.conn("keys").NATS().Subscribe("agent.key.*",
		func(m *nats.Msg) { _ = m.Respond([]byte("a-key")) }); err != nil {
		t.Fatal(err)
	}
	source := bus.NewKeys(g.conn("keyuser"), bus.KeyOptions{Parse: keys.ParseAnswer})
	eventually(t, "the key service is there", func() bool {
		key, err := source.Key(limited, "anthropic")
		return err == nil && key == "a-key"
	})
}

// TestWhatRolesMayNot holds for each role what it may and, next to it, what it may not.
func TestWhatRolesMayNot(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, map[string][]permissions.Name{
		"sender": {permissions.Sender}, "viewer": {permissions.Viewer}, "worker": {permissions.Worker},
		"asker": {permissions.ModelUser}, "models": {permissions.ModelServer}, "keys": {permissions.KeyService},
		"keyuser": {permissions.KeyUser}, "runner": {permissions.Runner}, "keyless": {permissions.KeylessRunner},
		"approver": {permissions.Approver}, "profiles": {permissions.Profiles}, "hook": {permissions.Hook},
		"querier": {permissions.Querier}, "lister": {permissions.Lister}, "teller": {permissions.RunnerReplies},
		"deleter": {permissions.Deleter}, "resources": {permissions.Resources},
	})
	for _, c := range []struct{ user, may, mayNot string }{
		{"sender", "pub agent.cmd.s1.prompt", "pub agent.cmd.s2.prompt"},
		{"sender", "sub _INBOX_sender.1", "sub agent.live.s1.event"},
		{"sender", "pub agent.cmd.s1.abort", "pub agent.cmd.s1.tool_result"},
		{"sender", "pub agent.cmd.s1.steer", "pub agent.evt.s1"},
		{"viewer", "sub agent.live.s1.>", "sub agent.live.s2.>"},
		{"viewer", "pub $JS.API.DIRECT.GET.AGENT_EVT.agent.evt.s1", "pub $JS.API.DIRECT.GET.AGENT_EVT"},
		{"viewer", "pub $JS.API.CONSUMER.CREATE.AGENT_UPD.x.agent.live.s1.update",
			"pub $JS.API.CONSUMER.CREATE.AGENT_UPD.x.agent.live.s2.update"},
		{"worker", "pub agent.cmd.s1.tool_result", "pub agent.cmd.s1.prompt"},
		{"worker", "sub agent.cancel.s1.c1", "sub agent.live.s1.event"},
		{"worker", "pub $KV.agent_tools.bash.w1", "pub $KV.agent_tools.ls.w1"},
		{"worker", "pub agent.live.s1.update", "pub agent.evt.s1"},
		{"worker", "pub $KV.agent_tools.bash.w1", "pub $KV.agent_resources.w1"},
		{"resources", "pub $KV.agent_resources.w1", "pub $KV.agent_resources.w2"},
		{"runner", "pub $JS.API.DIRECT.GET.AGENT_SPENT.agent.spent.p.total.tokens", "pub $O.other.M.x"},
		{"querier", "pub agent.query.s1.tree", "pub agent.query.s2.tree"},
		{"worker", "pub $KV.agent_tools.bash.w1", "pub $JS.API.DIRECT.GET.AGENT_SPENT.agent.spent.p.total.tokens"},
		{"asker", "pub agent.model.request", "sub agent.model.request"},
		{"asker", "pub agent.model.call.x", "sub agent.model.call.x"},
		{"asker", "sub _INBOX_asker.1", "sub _INBOX_models.1"},
		{"asker", "pub agent.model.request", "pub agent.key.anthropic"},
		{"models", "sub agent.model.request models", "sub agent.model.request"},
		{"models", "pub _INBOX_asker.models.x.1", "sub _INBOX_asker.models.x.1"},
		{"models", "pub _INBOX_runner.models.x.1", "pub _INBOX_runner.1"},
		{"models", "sub agent.model.call.x", "pub _INBOX_asker.x.1"},
		{"models", "sub agent.model.call.x", "pub agent.cmd.s1.prompt"},
		{"models", "sub agent.model.call.x", "sub agent.key.anthropic"},
		{"keys", "sub agent.key.anthropic", "sub agent.model.call.x"}, {"keys", "sub agent.key.*", "pub agent.cmd.s1.prompt"},
		{"keyuser", "pub agent.key.anthropic", "sub agent.key.anthropic"},
		{"keyuser", "sub _INBOX_keyuser.1", "sub _INBOX_runner.1"},
		{"runner", "pub agent.evt.s1", "pub $KV.other.x"}, {"runner", "pub agent.key.anthropic", "pub _INBOX_sender.1"},
		{"keyless", "pub agent.model.request", "sub agent.model.request"},
		{"keyless", "pub agent.model.call.x", "sub agent.model.call.x"},
		{"approver", "pub agent.cmd.s1.approve", "pub agent.cmd.s1.set_profile"},
		{"approver", "pub agent.cmd.s1.deny", "pub agent.cmd.s2.deny"},
		{"profiles", "pub $KV.agent_profiles.x", "pub $KV.agent_tools.x"},
		{"hook", "sub agent.hook.beforeToolCall.policy", "sub agent.hook.input"},
		{"hook", "sub agent.hook.beforeToolCall.policy", "pub agent.cmd.s1.approve"},
		{"querier", "pub agent.query.s1.state", "pub agent.query.s2.state"},
		{"querier", "pub agent.query.s1.outcome", "pub agent.query.sessions"},
		{"querier", "sub _INBOX_querier.1", "sub agent.query.s1.state"},
		{"lister", "pub agent.query.sessions", "pub agent.query.s1.messages"},
		{"teller", "pub _INBOX_sender.1", "pub agent.cmd.s1.abort"},
		{"runner", "pub $KV.agent_profiles.x", "pub $O.agent_inputs.X.x"},
		{"runner", "pub $O.agent_inputs.M.x", "pub $O.other.M.x"},
		{"runner", "pub $KV.agent_deletions.x", "pub $KV.other.x"},
		{"deleter", "pub $JS.API.STREAM.PURGE.AGENT_EVT", "pub $JS.API.STREAM.DELETE.AGENT_EVT"},
		{"deleter", "pub agent.cmd.s1.abort", "pub agent.cmd.s1.prompt"},
		{"viewer", "sub agent.live.s1.event", "pub $JS.API.STREAM.PURGE.AGENT_EVT"},
		{"keyless", "sub agent.cancel.*.*", "sub agent.key.anthropic"},
		{"keyless", "pub agent.evt.s1", "pub agent.key.anthropic"},
	} {
		if err := g.try(c.user, c.may); err != nil {
			t.Errorf("%s may not %s: %v", c.user, c.may, err)
		}
		if err := g.try(c.user, c.mayNot); !errors.Is(err, nats.ErrPermissionViolation) {
			t.Errorf("%s may %s: %v", c.user, c.mayNot, err)
		}
	}
}

// try publishes or subscribes as a user and returns what the server thinks of it.
func (g *guarded) try(user, what string) error {
	g.t.Helper()
	nc, err := nats.Connect(g.as(user), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		g.t.Fatal(err)
	}
	defer nc.Close()
	verb, rest, _ := strings.Cut(what, " ")
	subject, queue, _ := strings.Cut(rest, " ")
	if verb == "pub" {
		err = nc.Publish(subject, nil)
	} else {
		_, err = nc.QueueSubscribeSync(subject, queue)
	}
	if err := errors.Join(err, nc.FlushTimeout(deadline)); err != nil {
		return err
	}
	return nc.LastError()
}
