package inbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/inbox"
	"github.com/loopbus/loopbus/schemas"
)

// known answers as a log that has accepted every command.
func known(session, command string) (schemas.Event, bool) {
	return schemas.Event{Session: session, Seq: 7, Time: time.Unix(1, 0), Source: "/loopbus/runner/r1",
		Data: &schemas.CommandAccepted{CommandID: command, Kind: schemas.CommandPrompt}}, true
}

// asking publishes a command whose sender wants to know its outcome at an inbox.
func asking(t *testing.T, c *bus.Conn, kind, payload, wants, to string) {
	t.Helper()
	m := &nats.Msg{Subject: "agent.cmd.s1." + kind, Data: []byte(payload), Header: nats.Header{}}
	m.Header.Set(schemas.HeaderReply, wants)
	m.Header.Set(schemas.HeaderReplyTo, to)
	if _, err := c.JetStream().PublishMsg(bustest.Deadline(t), m); err != nil {
		t.Fatal(err)
	}
}

// outcome waits for an outcome.
func outcome(t *testing.T, answers *nats.Subscription) schemas.Event {
	t.Helper()
	m, err := answers.NextMsg(20 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	var q schemas.QueriedEvent
	if err := json.Unmarshal(m.Data, &q); err != nil || m.Header.Get(schemas.HeaderContentType) != schemas.ContentEvent {
		t.Fatalf("%s %v: %v", m.Data, m.Header, err)
	}
	e, err := q.Event()
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func listen(t *testing.T, c *bus.Conn) (to string, answers *nats.Subscription) {
	t.Helper()
	to = nats.NewInbox()
	answers, err := c.NATS().SubscribeSync(to)
	if err != nil {
		t.Fatal(err)
	}
	return to, answers
}

// The sender is told once the command has entered the log, while the session may be at work for long, and before the
// command is acknowledged.
func TestSendersAreToldTheOutcome(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	o := bustest.Fast("r1")
	o.Outcome = known
	at, rest := make(chan struct{}), make(chan struct{})
	h := &fakeHandler{deliver: func(ctx context.Context, cmd schemas.Command, entered func()) error {
		entered()
		close(at)
		<-rest
		return nil
	}}
	bustest.RunInbox(t, c, o, h)
	to, answers := listen(t, c)
	asking(t, c, "prompt", `{"text":"go","id":"p1"}`, "outcome", to)
	<-at
	if e := outcome(t, answers); e.ID() != "s1/7" || e.Data.(*schemas.CommandAccepted).CommandID != "p1" {
		t.Errorf("told %+v", e)
	}
	if bustest.Queued(t, c) != 1 {
		t.Error("it is acknowledged before the session rests")
	}
	close(rest)
	bustest.Eventually(t, "it is acknowledged", func() bool { return bustest.Queued(t, c) == 0 })
}

// A runner that is lost before it has told leaves the command to one who does.
func TestTheNextRunnerTells(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	lost, ended := bustest.Fast("lost"), make(chan struct{})
	lost.Outcome = func(string, string) (schemas.Event, bool) { return schemas.Event{}, false }
	lost.Search = func(ctx context.Context, _, _ string) (schemas.Event, bool, error) {
		<-ctx.Done() // as one that has no connection any more
		return schemas.Event{}, false, ctx.Err()
	}
	h := &fakeHandler{deliver: func(ctx context.Context, cmd schemas.Command, entered func()) error {
		entered()
		close(ended)
		<-ctx.Done()
		return ctx.Err()
	}}
	lost.StopTimeout = time.Millisecond
	_, stop := bustest.RunInbox(t, c, lost, h)
	to, answers := listen(t, c)
	asking(t, c, "prompt", "go", "outcome", to)
	<-ended
	if err := stop(); err != nil && !errors.Is(err, context.Canceled) {
		t.Log(err)
	}
	next := bustest.Fast("next")
	next.Outcome = known
	bustest.RunInbox(t, c, next, &fakeHandler{})
	if e := outcome(t, answers); e.Session != "s1" {
		t.Errorf("told %+v", e)
	}
}

// What is no command is refused, and its sender told so.
func TestSendersAreToldOfRefusals(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	o := bustest.Fast("r1")
	var h fakeHandler
	o.Outcome = func(session, command string) (schemas.Event, bool) {
		r := h.rejections()
		return schemas.Event{Session: session, Seq: 1, Time: time.Unix(1, 0), Source: "/x", Data: &r[0]}, true
	}
	bustest.RunInbox(t, c, o, &h)
	to, answers := listen(t, c)
	asking(t, c, "abort", "no JSON", "outcome", to)
	if r, ok := outcome(t, answers).Data.(*schemas.CommandRejected); !ok || r.Code != schemas.RejectNotPlain {
		t.Errorf("told %+v", r)
	}
}

// No header makes a runner publish elsewhere than to an inbox: such a command is refused.
func TestOutcomesGoToInboxesOnly(t *testing.T) {
	t.Parallel()
	for name, header := range map[string][2]string{
		"a command's subject": {"outcome", "agent.cmd.s2.abort"}, "a log": {"outcome", "agent.evt.s2"},
		"a wildcard": {"outcome", "_INBOX.>"}, "an acknowledgement": {"outcome", "$JS.ACK.AGENT_CMD.x"},
		"no subject": {"outcome", ""}, "another wish": {"everything", "_INBOX.x"}, "no wish": {"", "_INBOX.x"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, c := bustest.Small(t)
			o := bustest.Fast("r1")
			o.Outcome = known
			var h fakeHandler
			all, err := c.NATS().SubscribeSync("agent.cmd.s2.>")
			if err != nil {
				t.Fatal(err)
			}
			bustest.RunInbox(t, c, o, &h)
			asking(t, c, "prompt", "go", header[0], header[1])
			bustest.Eventually(t, "it is acknowledged", func() bool { return bustest.Queued(t, c) == 0 })
			r := h.rejections()
			if len(r) != 1 || r[0].Code != schemas.RejectInvalid || !strings.Contains(r[0].Reason, "Loopbus-Reply") {
				t.Errorf("rejections %+v", r)
			}
			if n, _, _ := all.Pending(); n != 0 || h.total() != 0 {
				t.Errorf("%d commands of another session, %d deliveries", n, h.total())
			}
		})
	}
}

// Repeated old commands, whose outcomes have to be searched for, do not delay the other commands of the session.
// A few of the outcomes come later.
func TestSearchesKeepNoCommandWaiting(t *testing.T) {
	t.Parallel()
	const repeats = 100
	_, c := bustest.Small(t)
	o := bustest.Fast("r1")
	o.Outcome = func(string, string) (schemas.Event, bool) { return schemas.Event{}, false }
	found := make(chan struct{})
	find := sync.OnceFunc(func() { close(found) })
	defer find()
	o.Search = func(_ context.Context, session, command string) (schemas.Event, bool, error) {
		<-found // however long that takes on a busy machine
		e, ok := known(session, command)
		return e, ok, nil
	}
	h := new(fakeHandler)
	bustest.RunInbox(t, c, o, h)
	to, answers := listen(t, c)
	for range repeats {
		asking(t, c, "abort", `{"id":"a1"}`, "outcome", to)
	}
	bustest.Eventually(t, "all are acknowledged", func() bool { return bustest.Queued(t, c) == 0 && h.total() >= repeats })
	if n, _, _ := answers.Pending(); n != 0 {
		t.Errorf("%d outcomes were sent before they were found", n)
	}
	find()
	outcome(t, answers)
	bustest.Eventually(t, "a share of the outcomes is sent", func() bool {
		n, _, _ := answers.Pending()
		return n+1 == 32
	})
}

var _ inbox.Handler = (*fakeHandler)(nil)
