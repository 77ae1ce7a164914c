package permissions_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/dial"
	"github.com/loopbus/loopbus/bus/permissions"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools/worker"
)

// attacked is a server with the streams of a deployment, a call that waits for a worker, and streams to be deleted.
type attacked struct {
	t    *testing.T
	addr string
	conn *bus.Conn // the admin's, in the account of the streams
}

func newAttacked(t *testing.T, config string) *attacked {
	t.Helper()
	a := &attacked{t: t, addr: serve(t, config)}
	a.conn = bustest.Dial(t, bus.ConnOptions{URL: "nats://admin:admin@" + a.addr,
		Dial: dial.Settings{InboxPrefix: "_INBOX_admin"}})
	bustest.Setup(t, a.conn, streams.Options{})
	_, err := a.conn.JetStream().CreateConsumer(bustest.Deadline(t), schemas.StreamTools,
		worker.Consumer(a.conn.Subjects(), "bash", 0))
	if err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{"agent.evt.s1", "$KV.agent_profiles.p", "$KV.agent_tools.bash.w1",
		"$O.agent_blobs.C.x", "agent.live.s1.update", "agent.tool.bash.s1.c1"} {
		if _, err := a.conn.JetStream().Publish(bustest.Deadline(t), subject, []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

// victim makes a stream, and returns a function that says whether it is there.
func (a *attacked) victim(name string) (there func() bool) {
	a.t.Helper()
	_, err := a.conn.JetStream().CreateStream(bustest.Deadline(a.t), jetstream.StreamConfig{Name: name,
		Subjects: []string{"victim." + name}, Storage: jetstream.MemoryStorage})
	if err != nil {
		a.t.Fatal(err)
	}
	return func() bool {
		_, err := a.conn.JetStream().Stream(bustest.Deadline(a.t), name)
		return err == nil
	}
}

// attack has a user try to delete a stream: by a request for it, by the replies of all that the user may publish, by
// consumers that it makes and by the calls that it takes.
func (a *attacked) attack(u permissions.User, victim string) {
	a.t.Helper()
	nc := as(a.t, a.addr, u.Name)
	deletion := "$JS.API.STREAM.DELETE." + victim
	send := func(subject, body string) {
		if err := nc.PublishRequest(subject, deletion, []byte(body)); err != nil {
			a.t.Fatal(err)
		}
	}
	send(deletion, "")
	g, err := u.Grant(schemas.Subjects{})
	if err != nil {
		a.t.Fatal(err)
	}
	for _, own := range g.Publish {
		if stream, filter, ok := creates(own); ok {
			a.consumers(nc, stream, filter, deletion)
		}
	}
	for _, own := range allowed(a.t, u) {
		if strings.HasPrefix(own, "$JS.API.STREAM.PURGE.") {
			continue // what others need
		}
		for _, body := range []string{"", "{}", "x", `{"batch":1,"no_wait":true}`} {
			send(own, body)
		}
	}
	if !slices.Contains(u.Roles, permissions.Worker) {
		return
	}
	for i := range 20 { // what was asked for above takes some
		_, err := a.conn.JetStream().Publish(bustest.Deadline(a.t), fmt.Sprintf("agent.tool.bash.%s.c%d", u.Name, i),
			[]byte("{}"))
		if err != nil {
			a.t.Fatal(err)
		}
	}
	in := nc.NewRespInbox()
	calls, err := nc.SubscribeSync(in)
	if err == nil {
		err = nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT.AGENT_TOOL.bash", in, []byte(`{"batch":1,"expires":5000000000}`))
	}
	if err != nil {
		a.t.Fatal(err)
	}
	call, err := calls.NextMsgWithContext(bustest.Deadline(a.t))
	if err != nil || call.Reply == "" {
		a.t.Fatalf("no call comes: %+v, %v", call, err)
	}
	send(call.Reply, "+ACK")
}

// creates returns what a role that may create consumers by a subject may have them read.
func creates(subject string) (stream, filter string, ok bool) {
	rest, ok := strings.CutPrefix(subject, "$JS.API.CONSUMER.CREATE.")
	stream, rest, _ = strings.Cut(rest, ".")
	if filter, found := strings.CutPrefix(rest, "*."); found {
		rest = filter
	}
	if rest == ">" {
		rest = map[string]string{schemas.StreamTools: "agent.tool.<name>.>"}[stream]
	}
	return stream, rest, ok && rest != ""
}

// consumers makes one that delivers without payloads to the subject, and one that is asked for nothing.
func (a *attacked) consumers(nc *nats.Conn, stream, filter, deletion string) {
	a.t.Helper()
	ack := map[bool]string{true: "explicit", false: "none"}[stream == schemas.StreamTools]
	for _, more := range []map[string]any{
		{"deliver_subject": deletion, "headers_only": true, "idle_heartbeat": 100_000_000}, {"name": "pulled"},
	} {
		c := map[string]any{"name": "pushed", "deliver_policy": "all", "ack_policy": ack}
		maps.Copy(c, more)
		read := strings.ReplaceAll(filter, "<name>", c["name"].(string)) // a queue's calls go to one consumer
		c["filter_subject"] = read
		body, err := json.Marshal(map[string]any{"stream_name": stream, "config": c})
		if err != nil {
			a.t.Fatal(err)
		}
		made, err := nc.RequestWithContext(bustest.Deadline(a.t),
			fmt.Sprintf("$JS.API.CONSUMER.CREATE.%s.%s.%s", stream, c["name"], read), body)
		if err != nil || strings.Contains(string(made.Data), `"error"`) {
			a.t.Errorf("consumer of %s: %v %s", stream, err, made.Data)
		}
	}
	for range 3 { // there are messages at first
		_ = nc.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+stream+".pulled", deletion, []byte(`{"batch":9,"no_wait":true}`))
	}
}

// passed waits until the server has answered what came before: a deletion like those, of the admin, has been done.
func (a *attacked) passed(user string) {
	a.t.Helper()
	for i := range 2 {
		name := fmt.Sprintf("passed_%s_%d", user, i)
		there := a.victim(name)
		err := a.conn.NATS().PublishRequest("$JS.API.DIRECT.GET.AGENT_EVT.agent.evt.nobody",
			"$JS.API.STREAM.DELETE."+name, nil)
		if err != nil {
			a.t.Fatal(err)
		}
		bustest.Eventually(a.t, "an admin deletes by a reply", func() bool { return !there() })
	}
}

// In one account the roles that are marked can delete every stream, and no others.
func TestWhoDeletesByReplies(t *testing.T) {
	t.Parallel()
	for _, r := range permissions.Roles() {
		t.Run(string(r.Name), func(t *testing.T) {
			t.Parallel()
			u := users(r.Name)[0]
			config, err := permissions.Users(schemas.Subjects{}, admins, []permissions.User{u})
			if err != nil {
				t.Fatal(err)
			}
			deletes := strings.Contains(r.Harm, "delete every stream")
			if said := strings.Contains(config, "can delete every stream, as "+string(r.Name)); said != deletes {
				t.Errorf("the configuration says that it deletes: %v", said)
			}
			a := newAttacked(t, config)
			there := a.victim("victim")
			a.attack(u, "victim")
			if deletes {
				bustest.Eventually(t, "the stream is deleted", func() bool { return !there() })
				return
			}
			a.passed(u.Name)
			if !there() {
				t.Error("it has deleted a stream")
			}
		})
	}
}

// By an account of its own, no role deletes a stream.
func TestNobodyDeletesFromAnAccountOfItsOwn(t *testing.T) {
	t.Parallel()
	var list []permissions.User
	for _, r := range permissions.Roles() {
		if r.OwnAccount() {
			list = append(list, users(r.Name)...)
		}
	}
	config, err := permissions.Accounts(schemas.Subjects{}, admins, list)
	if err != nil {
		t.Fatal(err)
	}
	a := newAttacked(t, config)
	there := a.victim("victim")
	for _, u := range list {
		a.attack(u, "victim")
		a.passed(u.Name)
		if !there() {
			t.Fatalf("%s has deleted a stream", u.Name)
		}
	}
}

// A server remembers a request of another account until it is answered, and one that nobody answers not for long.
func TestRequestsOfAccountsAreForgotten(t *testing.T) {
	t.Parallel()
	config, err := permissions.Accounts(schemas.Subjects{}, admins, users(permissions.ModelUser))
	if err != nil {
		t.Fatal(err)
	}
	s := bustest.Configured(t, config)
	addr := strings.TrimPrefix(s.ClientURL(), "nats://")
	admin, asker := as(t, addr, "admin"), as(t, addr, string(permissions.ModelUser))
	asked, err := admin.SubscribeSync("agent.model.call.*")
	if err == nil {
		err = admin.FlushTimeout(10 * time.Second)
	}
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if err := asker.PublishRequest("agent.model.call.x", "nobody.listens", nil); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		if _, err := asked.NextMsgWithContext(bustest.Deadline(t)); err != nil {
			t.Fatal(err)
		}
	}
	core, err := s.LookupAccount(permissions.Core)
	if err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "the requests are forgotten", func() bool { return core.NumPendingAllResponses() == 0 })
}

// A server refuses clients who name one of its own subjects for the replies of other accounts, which services answer
// as they answer inboxes: [schemas.MayAnswer].
func TestNobodyNamesAReplyOfTheServer(t *testing.T) {
	t.Parallel()
	for form, render := range map[string]func(schemas.Subjects, []permissions.User, []permissions.User) (string, error){
		"users": permissions.Users, "accounts": permissions.Accounts} {
		config, err := render(schemas.Subjects{}, admins, users(permissions.Querier))
		if err != nil {
			t.Fatal(err)
		}
		addr := serve(t, config)
		admin := as(t, addr, "admin")
		asked, err := admin.SubscribeSync("agent.query.s1.state")
		if err == nil {
			err = admin.FlushTimeout(10 * time.Second)
		}
		if err != nil {
			t.Fatal(err)
		}
		nc := as(t, addr, string(permissions.Querier))
		for _, reply := range []string{"_R_.x", "_R_.abcdef.ghijkl", "_GR_.abcdef.ghijkl._INBOX.x"} {
			if err := nc.PublishRequest("agent.query.s1.state", reply, []byte(reply)); err != nil {
				t.Fatal(err)
			}
		}
		const own = "_INBOX_querier.x"
		if err := nc.PublishRequest("agent.query.s1.state", own, []byte("mine")); err != nil {
			t.Fatal(err)
		}
		m, err := asked.NextMsgWithContext(bustest.Deadline(t))
		if err != nil || string(m.Data) != "mine" || !schemas.MayAnswer(m.Reply) {
			t.Errorf("%s: %+v, %v", form, m, err)
		}
	}
}
