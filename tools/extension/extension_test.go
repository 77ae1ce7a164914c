package extension_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/bus/codec"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/extension"
)

type sent struct {
	Session, ID string
	Data        schemas.CommandData
}

// bed is an inbox that keeps what is sent, and a runner that says what is queued.
type bed struct {
	t  *testing.T
	nc *nats.Conn
	c  *client.Client
}

func newBed(t *testing.T, state schemas.SessionState) *bed {
	t.Helper()
	conn := bustest.Connect(t, bustest.Server(t))
	b := &bed{t: t, nc: conn.NATS()}
	_, err := conn.JetStream().CreateStream(bustest.Deadline(t), jetstream.StreamConfig{Name: schemas.StreamCommands,
		Subjects: []string{"agent.cmd.*.*"}})
	if err != nil {
		t.Fatal(err)
	}
	body, err := schemas.Marshal(state)
	if err == nil {
		_, err = b.nc.Subscribe("agent.query.*.state", func(m *nats.Msg) { _ = m.Respond(body) })
	}
	if err == nil {
		b.c, err = client.New(b.nc, client.Options{RequestTimeout: time.Second})
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// run runs a tool and returns its result, and what it has sent.
func (b *bed) run(name string, call tools.Call) (text string, isError bool, all []sent) {
	b.t.Helper()
	set, err := extension.Tools(b.c)
	if err != nil {
		b.t.Fatal(err)
	}
	sub, err := b.nc.SubscribeSync("agent.cmd.*.*")
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	i := slices.IndexFunc(set, func(t tools.Tool) bool { return t.Name == name })
	result, isError := set[i].Run(b.t.Context(), call, nil)
	if err := b.nc.Flush(); err != nil {
		b.t.Fatal(err)
	}
	for {
		m, err := sub.NextMsg(0)
		if err != nil {
			return result.Content.JoinText(), isError, all
		}
		session, kind, err := schemas.Subjects{}.ParseCommand(m.Subject)
		if err != nil {
			b.t.Fatal(err)
		}
		c, err := codec.DecodeCommand(session, kind, m.Header, m.Data, "", time.Now())
		if err != nil {
			b.t.Fatal(err)
		}
		all = append(all, sent{session, c.ID, c.Data})
	}
}

func callOf(args string) tools.Call {
	return tools.Call{Session: "s1", Key: "c17", IdempotencyKey: "s1/c17", Arguments: []byte(args)}
}

func TestInterruptAborts(t *testing.T) {
	t.Parallel()
	for want, state := range map[string]schemas.SessionState{
		"Interrupt request sent": {},
		"Interrupt request sent; waiting for the next run: 2 steers, 1 follow-up": {
			Steering: make([]schemas.QueuedInput, 2), FollowUp: make([]schemas.QueuedInput, 1)},
	} {
		text, isError, got := newBed(t, state).run(schemas.ToolAgentInterrupt, callOf(`{}`))
		abort := []sent{{"s1", "interrupt/c17", &schemas.Abort{Reason: "agent-requested"}}}
		if d := cmp.Diff(abort, got); d != "" || isError || text != want {
			t.Errorf("%q, error %t, sent (-want +got):\n%s", text, isError, d)
		}
	}
}

// A caller without a session gets an error, and nothing is sent.
func TestCallersWithoutASession(t *testing.T) {
	t.Parallel()
	b := newBed(t, schemas.SessionState{})
	for _, name := range schemas.DefaultExtensionTools() {
		call := callOf(`{}`)
		call.NoSession = true
		if text, isError, got := b.run(name, call); !isError || len(got) > 0 || text != extension.ErrNoSession.Error() {
			t.Errorf("%s: %q, error %t, sent %+v", name, text, isError, got)
		}
	}
}

// The copy's id has a part that nobody can guess, and no model chooses it: a session that somebody else will use would
// begin with what the model has put there.
func TestBranchCopiesUpToTheCall(t *testing.T) {
	t.Parallel()
	id := regexp.MustCompile(`^(s1|x{47})-c17-[0-9a-f]{12}$`)
	var before string
	for _, c := range []struct{ session, nonce, args string }{
		{"s1", "n1", `{}`}, {"s1", "n2", `{}`}, {"s1", "n3", `{"session":"bob"}`}, {strings.Repeat("x", 64), "n1", `{}`},
	} {
		call := callOf(c.args)
		call.Session, call.IdempotencyKey = c.session, c.session+"/c17/"+c.nonce
		text, isError, got := newBed(t, schemas.SessionState{}).run(schemas.ToolSessionBranch, call)
		if isError || len(got) != 1 || !id.MatchString(got[0].Session) || got[0].Session == before ||
			text != "Branched into session "+got[0].Session {
			t.Fatalf("%+v: %q, error %t, sent %+v", c, text, isError, got)
		}
		before = got[0].Session
		want := sent{before, "branch/" + call.IdempotencyKey, &schemas.Branch{Session: c.session, Seq: 17}}
		if d := cmp.Diff(want, got[0]); d != "" {
			t.Errorf("sent (-want +got):\n%s", d)
		}
	}
}

func TestWhatCannotBeSentIsAnError(t *testing.T) {
	t.Parallel()
	b := newBed(t, schemas.SessionState{})
	b.nc.Close()
	set, err := extension.Tools(b.c)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range set {
		if result, isError := tool.Run(t.Context(), callOf(`{}`), nil); !isError ||
			!strings.Contains(result.Content.JoinText(), "connection closed") {
			t.Errorf("%s: %+v, error %t", tool.Name, result, isError)
		}
	}
}
