package permissions_test

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/permissions"
	"github.com/loopbus/loopbus/schemas"
)

var admins = []permissions.User{{Name: "admin", Password: "admin"}}

// users have one role each, all for session s1.
func users(names ...permissions.Name) (list []permissions.User) {
	for _, n := range names {
		list = append(list, permissions.User{Name: string(n), Password: string(n), Roles: []permissions.Name{n},
			Session: "s1", Queue: "bash", Worker: "w1", Hook: "beforeToolCall.policy", Answers: []string{"asker"}})
	}
	return list
}

// serve starts a server with a configuration, and returns its address.
func serve(t *testing.T, config string) string {
	t.Helper()
	return strings.TrimPrefix(bustest.Configured(t, config).ClientURL(), "nats://")
}

// as connects as a user.
func as(t *testing.T, addr, user string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect("nats://"+user+":"+user+"@"+addr, nats.CustomInboxPrefix("_INBOX_"+user),
		nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// inbox makes streams of the inbox and the logs, with the admin's connection.
func inbox(t *testing.T, nc *nats.Conn) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	for name, subject := range map[string]string{schemas.StreamCommands: "agent.cmd.*.*",
		schemas.StreamEvents: "agent.evt.*", "OBJ_agent_inputs": "$O.agent_inputs.C.*"} {
		_, err := js.CreateStream(bustest.Deadline(t), jetstream.StreamConfig{Name: name, Subjects: []string{subject},
			AllowDirect: true})
		if err != nil {
			t.Fatal(err)
		}
	}
	return js
}

// everything is what somebody would like to do who should do nothing of it.
var everything = []string{"agent.cmd.s2.prompt", "agent.cmd.s2.approve", "agent.cmd.s1.set_profile",
	"agent.cmd.s2.tool_result",
	"agent.evt.s1", "agent.evt.s2", "agent.live.s2.event", "$JS.API.STREAM.DELETE.AGENT_EVT",
	"$JS.API.DIRECT.GET.AGENT_EVT",
	"$JS.API.STREAM.MSG.GET.AGENT_EVT", "$JS.API.DIRECT.GET.AGENT_EVT.agent.evt.s2", "agent.hook.input",
	"$JS.API.STREAM.INFO.OBJ_agent_inputs", "$JS.API.STREAM.PURGE.OBJ_agent_inputs",
	"$JS.API.DIRECT.GET.OBJ_agent_inputs.$O.agent_inputs.M.>", "$JS.API.DIRECT.GET.OBJ_agent_inputs",
	"$JS.API.CONSUMER.CREATE.OBJ_agent_inputs.x.$O.agent_inputs.C.>", "$O.agent_blobs.M.x", "$KV.agent_tools.ls.w2",
	"$KV.agent_resources.w2", "$KV.agent_snapshots.s2.v2", "$KV.agent_profiles.x", "agent.tool.bash.s2.c1",
	"agent.cancel.s2.c1", "agent.model.request", "agent.key.anthropic"}

// allowed are, of what a user may publish, subjects without wildcards.
func allowed(t *testing.T, u permissions.User) (all []string) {
	t.Helper()
	g, err := u.Grant(schemas.Subjects{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range g.Publish {
		all = append(all, strings.NewReplacer("*", "x", ">", "x").Replace(s))
	}
	return all
}

// trusted is what a role may do on purpose that others may not: a worker answers for every session, an auditor reads
// every log, a rerunner makes sessions and is their worker, a deleter reads and fences every log, a runner does
// everything.
func trusted(t *testing.T, u permissions.User) []string {
	t.Helper()
	switch u.Roles[0] {
	case permissions.Worker:
		return []string{"agent.cmd.*.tool_result"}
	case permissions.Rerunner:
		return []string{"agent.cmd.*.prompt", "agent.cmd.*.tool_result", "$KV.agent_tools.>"}
	case permissions.Auditor:
		return []string{"$JS.API.DIRECT.GET.AGENT_EVT", "$JS.API.DIRECT.GET.AGENT_EVT.>"}
	case permissions.Deleter:
		return []string{"agent.evt.*", "$JS.API.DIRECT.GET.AGENT_EVT", "$JS.API.DIRECT.GET.AGENT_EVT.>",
			"$JS.API.STREAM.MSG.GET.AGENT_EVT", "$O.agent_blobs.>", "agent.cancel.*.*"}
	case permissions.Profiles:
		return []string{"$KV.agent_profiles.>"}
	case permissions.ModelUser:
		return []string{"agent.model.request"}
	case permissions.KeyUser:
		return []string{"agent.key.*"}
	case permissions.Runner:
		return []string{"agent.>", "$JS.API.>", "$O.agent_blobs.>", "$KV.agent_tools.>", "$KV.agent_resources.>",
			"$KV.agent_snapshots.>", "$KV.agent_profiles.>"}
	case permissions.KeylessRunner:
		return []string{"agent.cmd.>", "agent.evt.>", "agent.live.>", "agent.hook.>", "agent.tool.>", "agent.cancel.>",
			"agent.model.>", "$JS.API.>", "$O.agent_blobs.>", "$KV.agent_tools.>", "$KV.agent_resources.>",
			"$KV.agent_snapshots.>", "$KV.agent_profiles.>"}
	}
	return nil
}

// covers reports whether a subject is below another one, which may have wildcards.
func covers(pattern, subject string) bool {
	have := strings.Split(subject, ".")
	for i, token := range strings.Split(pattern, ".") {
		switch {
		case token == ">":
			return true
		case i >= len(have) || token != "*" && token != have[i]:
			return false
		}
	}
	return len(have) == strings.Count(pattern, ".")+1
}

// In one account every role may publish what the table says, and nothing else.
func TestUsersOfOneAccount(t *testing.T) {
	t.Parallel()
	var names []permissions.Name
	for _, r := range permissions.Roles() {
		names = append(names, r.Name)
	}
	config, err := permissions.Users(schemas.Subjects{}, admins, users(names...))
	if err != nil {
		t.Fatal(err)
	}
	addr := serve(t, config)
	try := func(user, subject string) error {
		nc := as(t, addr, user)
		if err := errors.Join(nc.Publish(subject, nil), nc.FlushTimeout(10*time.Second)); err != nil {
			return err
		}
		return nc.LastError()
	}
	for _, u := range users(names...) {
		for _, subject := range allowed(t, u) {
			if err := try(u.Name, subject); err != nil {
				t.Errorf("%s may not publish %s: %v", u.Name, subject, err)
			}
		}
		for _, subject := range everything {
			if slices.ContainsFunc(trusted(t, u), func(own string) bool { return covers(own, subject) }) {
				continue
			}
			if err := try(u.Name, subject); !errors.Is(err, nats.ErrPermissionViolation) {
				t.Errorf("%s may publish %s: %v", u.Name, subject, err)
			}
		}
	}
}

// In accounts of their own, users do their work, and neither what they publish nor the replies they name reach anything
// else.
func TestAccountsOfTheirOwn(t *testing.T) {
	t.Parallel()
	list := users(permissions.Sender, permissions.Approver, permissions.LiveViewer, permissions.ModelUser,
		permissions.KeyUser, permissions.Querier, permissions.Inputs)
	config, err := permissions.Accounts(schemas.Subjects{}, admins, list)
	if err != nil {
		t.Fatal(err)
	}
	addr := serve(t, config)
	admin := as(t, addr, "admin")
	js := inbox(t, admin)
	if _, err := js.Publish(bustest.Deadline(t), "agent.evt.s1", []byte("an event")); err != nil {
		t.Fatal(err)
	}
	answer(t, admin, "agent.model.request", "agent.key.anthropic", "agent.query.s1.state")

	request := func(user, subject, want string) {
		t.Helper()
		m, err := as(t, addr, user).RequestWithContext(bustest.Deadline(t), subject, []byte("x"))
		if err != nil || !strings.Contains(string(m.Data), want) {
			t.Errorf("%s asks at %s: %v", user, subject, err)
		}
	}
	request("sender", "agent.cmd.s1.prompt", `"stream":"AGENT_CMD"`)
	request("inputs", "$O.agent_inputs.C.x", `"stream":"OBJ_agent_inputs"`)
	request("approver", "agent.cmd.s1.approve", `"stream":"AGENT_CMD"`)
	request("model_user", "agent.model.request", "answered")
	request("querier", "agent.query.s1.state", "answered")
	request("key_user", "agent.key.anthropic", "answered")
	viewer := as(t, addr, "live_viewer")
	live, err := viewer.SubscribeSync("agent.live.s1.>")
	if err == nil {
		err = viewer.FlushTimeout(10 * time.Second)
	}
	if err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "a viewer sees its session", func() bool {
		_ = admin.Publish("agent.live.s1.event", []byte("seen"))
		m, err := live.NextMsg(100 * time.Millisecond)
		return err == nil && string(m.Data) == "seen"
	})

	watched, err := admin.SubscribeSync(">") // the account of the streams
	if err == nil {
		err = admin.FlushTimeout(10 * time.Second)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range list {
		nc := as(t, addr, u.Name)
		for _, subject := range everything { // as the subject, and as the reply of what is allowed
			_ = nc.Publish(subject, []byte("{}"))
			for _, own := range allowed(t, u) {
				_ = nc.PublishRequest(own, subject, []byte("x"))
			}
		}
		if err := nc.FlushTimeout(10 * time.Second); err != nil {
			t.Fatal(err)
		}
	}
	if err := admin.Publish("the.end", nil); err != nil {
		t.Fatal(err)
	}
	for {
		m, err := watched.NextMsgWithContext(bustest.Deadline(t))
		if err != nil {
			t.Fatal(err)
		}
		if m.Subject == "the.end" {
			break
		}
		for _, subject := range everything {
			if m.Subject == subject && !strings.HasPrefix(subject, "agent.model.") && !strings.HasPrefix(subject, "agent.key.") {
				t.Errorf("%s reached the account of the streams: %q", subject, m.Data)
			}
		}
	}
}

// answer has the admin answer at subjects.
func answer(t *testing.T, nc *nats.Conn, subjects ...string) {
	t.Helper()
	for _, s := range subjects {
		if _, err := nc.Subscribe(s, func(m *nats.Msg) { _ = m.Respond([]byte("answered")) }); err != nil {
			t.Fatal(err)
		}
	}
	if err := nc.FlushTimeout(10 * time.Second); err != nil {
		t.Fatal(err)
	}
}

// What a user's names do not say is an error that names it.
func TestWhatAGrantNeeds(t *testing.T) {
	t.Parallel()
	for want, role := range map[string]permissions.Name{"session": permissions.Viewer, "tool \"\"": permissions.Worker,
		"hook": permissions.Hook, "answered": permissions.ModelServer} {
		u := permissions.User{Name: "u", Roles: []permissions.Name{role}}
		if _, err := u.Grant(schemas.Subjects{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v does not say %q", role, err, want)
		}
	}
}

// The error says why a user cannot be rendered.
// No two users read their password from one variable: each could connect as the other.
func TestPasswordVariablesAreDistinct(t *testing.T) {
	t.Parallel()
	var list []permissions.User
	for _, name := range []string{"ann", "a_b", "a-b", "A-B", "A_B", "a.b", "ax2db", "Ann", "aé", "a__", "a1"} {
		list = append(list, permissions.User{Name: name})
	}
	config, err := permissions.Users(schemas.Subjects{}, list, nil)
	if err != nil {
		t.Fatal(err)
	}
	variables := regexp.MustCompile(`password: \$(\S+)`).FindAllStringSubmatch(config, -1)
	seen := map[string]bool{}
	for _, v := range variables {
		if seen[v[1]] || !regexp.MustCompile(`^NATS_PASSWORD_\w+$`).MatchString(v[1]) {
			t.Errorf("variable %s in:\n%s", v[1], config)
		}
		seen[v[1]] = true
	}
	if len(seen) != len(list) || !seen["NATS_PASSWORD_ANN"] || !seen["NATS_PASSWORD_A_B"] {
		t.Errorf("variables: %q", variables)
	}
}

func TestRenderingErrors(t *testing.T) {
	t.Parallel()
	for want, u := range map[string]permissions.User{
		"makes consumers":       {Name: "w", Roles: []permissions.Name{permissions.Viewer}, Session: "s1"},
		"answers requests":      {Name: "h", Roles: []permissions.Name{permissions.Hook}, Hook: "input.policy"},
		"unknown role":          {Name: "w", Roles: []permissions.Name{"king"}},
		"session id":            {Name: "w", Roles: []permissions.Name{permissions.Sender}, Session: "s.>"},
		"user \"a b\" is not 1": {Name: "a b"},
	} {
		if _, err := permissions.Accounts(schemas.Subjects{}, nil, []permissions.User{u}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}
