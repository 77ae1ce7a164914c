//go:build unix

package processes_test

import (
	"context"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/bus/dial"
	"github.com/loopbus/loopbus/bus/models"
	"github.com/loopbus/loopbus/bus/permissions"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/providers/keys"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools/worker"
)

// TestEachRoleByAnAccountOfItsOwn checks that each role which can have a separate account can do its work in it, with a
// real runner and a real worker. The worker uses the account of its role.
func TestEachRoleByAnAccountOfItsOwn(t *testing.T) {
	t.Parallel()
	u := accounts(t)
	w, p := u.world(), u.place
	p.as("admin")
	script := p.file("script.json", `[{"toolCalls":[{"name":"bash","arguments":{"command":"echo reached"}}]}`+
		strings.Repeat(`,{"text":"all done"}`, 10)+`]`)
	w.run(p.command("runner", "--id", "r1", "--model", "scripted", "--script", script, "--http", "127.0.0.1:0",
		"--log-json", "--partitions", "8", "--approve", "bash", "--serve-models")).awaitReady()
	p.as("worker")
	root := t.TempDir()
	toolworker := w.run(p.command("toolworker", "--id", "w1", "--tools", "bash", "--root", root, "--leave-streams"))
	system.Eventually(t, "the worker announces bash", func() bool {
		kv, err := w.conn.JetStream().KeyValue(t.Context(), schemas.BucketTools)
		if err == nil {
			_, err = kv.Get(t.Context(), schemas.AnnouncementKey("bash", "w1"))
		}
		return err == nil
	})

	live, err := u.conn("live_viewer").NATS().SubscribeSync("agent.live.s1.event")
	if err == nil {
		err = u.conns["live_viewer"].NATS().FlushTimeout(system.Deadline)
	}
	if err != nil {
		t.Fatal(err)
	}
	sent(t, u.session("sender"), &schemas.Prompt{Input: schemas.Input{Text: "go"}})
	asked := w.until("s1", "the approval is asked for", bustest.Nth(1, schemas.EventApprovalRequested))
	call := system.DataOf[*schemas.ApprovalRequested](asked)[0].Call
	sent(t, u.session("approver"), &schemas.Approve{ApprovalAnswer: schemas.ApprovalAnswer{Call: call}})
	log := w.until("s1", "the end of the run", system.Ends(1))
	if end := system.DataOf[*schemas.ToolExecutionEnd](log); len(end) != 1 || end[0].Worker != "w1" {
		t.Errorf("the call: %+v", end)
	}
	w.empty(schemas.StreamTools) // the worker has acknowledged the call
	if m, err := live.NextMsgWithContext(bustest.Deadline(t)); err != nil || m.Subject != "agent.live.s1.event" {
		t.Errorf("live_viewer: %v, %v", m, err)
	}
	sent(t, u.session("inputs"), &schemas.Prompt{Input: schemas.Input{Text: strings.Repeat("long ", 100<<10)}})
	w.until("s1", "the end of the run with a long input", system.Ends(2))

	u.outcome("sender", "agent.cmd.s1.abort", `{}`)
	u.outcome("approver", "agent.cmd.s1.approve", `{"call":"c1"}`) // is rejected: no such call waits for approval
	for who, work := range map[string]func(context.Context) error{
		"querier": func(ctx context.Context) error {
			_, err := u.session("querier").State(ctx)
			return err
		},
		"lister": func(ctx context.Context) error {
			c := bustest.Client(t, u.conn("lister"))
			page, err := c.Sessions(ctx, schemas.SessionsQuery{})
			if err == nil && len(page.Sessions) != 1 {
				t.Errorf("lister: %+v", page)
			}
			if err == nil {
				_, err = c.Models(ctx)
			}
			return err
		},
		"model_user": func(ctx context.Context) error {
			var last schemas.StreamEvent
			ask := models.NewClient(u.conn("model_user"), models.ClientOptions{})
			for e, err := range ask.Stream(ctx, schemas.ModelRequest{Model: schemas.ModelRef{ID: "scripted"}}) {
				if err != nil {
					return err
				}
				last = e
			}
			if last.Type != schemas.StreamDone {
				t.Errorf("model_user: %+v", last)
			}
			return nil
		},
		"key_user": func(ctx context.Context) error {
			_, err := w.conn.NATS().Subscribe("agent.key.*", func(m *nats.Msg) { _ = m.Respond([]byte("sk-1")) })
			if err == nil {
				err = w.conn.NATS().FlushTimeout(system.Deadline)
			}
			if err != nil {
				return err
			}
			key, err := bus.NewKeys(u.conn("key_user"), bus.KeyOptions{Parse: keys.ParseAnswer}).Key(ctx, "anthropic")
			if key != "sk-1" {
				t.Errorf("key_user: %q", key)
			}
			return err
		},
		"profiles": func(ctx context.Context) error {
			_, err := u.conn("profiles").JetStream().Publish(ctx, "$KV.agent_profiles.mine", []byte(`{}`))
			return err
		},
		"verifier": func(ctx context.Context) error {
			for _, subject := range []string{"$JS.API.STREAM.INFO.KV_agent_snapshots",
				"$JS.API.DIRECT.GET.KV_agent_snapshots.$KV.agent_snapshots.s1.v3"} {
				m, err := u.conn("verifier").NATS().RequestWithContext(ctx, subject, nil)
				if err != nil {
					return err
				}
				if len(m.Data) == 0 && m.Header.Get("Status") != "404" || strings.Contains(string(m.Data), `"error"`) {
					t.Errorf("verifier: %+v", m)
				}
			}
			return nil
		},
	} {
		if err := work(bustest.Deadline(t)); err != nil {
			t.Errorf("%s: %v", who, err)
		}
	}
	if said := toolworker.output(); strings.Contains(said, `level=WARN`) || strings.Contains(said, `"WARN"`) {
		t.Errorf("the worker logs warnings:\n%s", said)
	}
}

// tenants are users with separate accounts: one for each role, except roles that share the account of another one.
type tenants struct {
	t     *testing.T
	place *place
	conns map[string]*bus.Conn
}

func accounts(t *testing.T) *tenants {
	t.Helper()
	with := map[permissions.Name][]permissions.Name{
		permissions.Worker: {permissions.Worker, permissions.Resources},
		permissions.Inputs: {permissions.Inputs, permissions.Sender},
	}
	var users []permissions.User
	for _, r := range permissions.Roles() {
		if !r.OwnAccount() || r.Name == permissions.Resources {
			continue
		}
		roles := with[r.Name]
		if roles == nil {
			roles = []permissions.Name{r.Name}
		}
		users = append(users, permissions.User{Name: string(r.Name), Password: string(r.Name), Roles: roles, Session: "s1",
			Queue: "bash", Worker: "w1"})
	}
	config, err := permissions.Accounts(schemas.Subjects{}, []permissions.User{{Name: "admin", Password: "admin"}}, users)
	if err != nil {
		t.Fatal(err)
	}
	p := &place{t: t, url: bustest.Configured(t, config).ClientURL()}
	return &tenants{t: t, place: p, conns: map[string]*bus.Conn{}}
}

// world returns the account of the streams, with the consumer of the worker's queue.
func (u *tenants) world() *world {
	u.t.Helper()
	w := &world{t: u.t, url: u.place.url, conn: u.conn("admin")}
	bustest.Setup(u.t, w.conn, streams.Options{Partitions: partitions})
	_, err := w.conn.JetStream().CreateConsumer(bustest.Deadline(u.t), schemas.StreamTools,
		worker.Consumer(w.conn.Subjects(), "bash", 0))
	if err == nil {
		w.store, err = eventstore.New(w.conn.Events(), eventstore.Options{})
	}
	if err != nil {
		u.t.Fatal(err)
	}
	return w
}

// conn returns the connection of a user.
func (u *tenants) conn(user string) *bus.Conn {
	u.t.Helper()
	if u.conns[user] == nil {
		u.conns[user] = bustest.Dial(u.t, bus.ConnOptions{URL: strings.Replace(u.place.url, "//", "//"+user+":"+user+"@", 1),
			Dial: dial.Settings{InboxPrefix: "_INBOX_" + user}})
	}
	return u.conns[user]
}

// session returns session s1 on the connection of a user.
func (u *tenants) session(user string) *client.Session {
	u.t.Helper()
	return bustest.Client(u.t, u.conn(user)).Session("s1")
}

// outcome sends a command as a user and waits for the outcome in an inbox of the user's own account.
func (u *tenants) outcome(user, subject, body string) {
	u.t.Helper()
	nc := u.conn(user).NATS()
	inbox := nc.NewRespInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err == nil {
		err = nc.FlushTimeout(system.Deadline)
	}
	if err != nil {
		u.t.Fatal(err)
	}
	m := nats.NewMsg(subject)
	m.Data = []byte(body)
	m.Header = nats.Header{schemas.HeaderReply: {schemas.ReplyOutcome}, schemas.HeaderReplyTo: {inbox}}
	if _, err := u.conn(user).JetStream().PublishMsg(bustest.Deadline(u.t), m); err != nil {
		u.t.Fatal(err)
	}
	told, err := sub.NextMsgWithContext(bustest.Deadline(u.t))
	if err != nil || !strings.Contains(string(told.Data), "command") {
		u.t.Errorf("%s: the outcome: %v, %v", user, told, err)
	}
}

func sent(t *testing.T, s *client.Session, data schemas.CommandData) {
	t.Helper()
	if _, err := s.Send(bustest.Deadline(t), data); err != nil {
		t.Fatal(err)
	}
}
