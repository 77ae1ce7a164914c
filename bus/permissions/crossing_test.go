package permissions_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/dial"
	"github.com/loopbus/loopbus/bus/models"
	"github.com/loopbus/loopbus/bus/permissions"
	"github.com/loopbus/loopbus/schemas"
)

// crossing is a configuration with accounts for some users, and with a user of the account of the streams who serves
// models and may do nothing else.
func crossing(t *testing.T, own []permissions.User) (addr string) {
	t.Helper()
	config, err := permissions.Accounts(schemas.Subjects{}, admins, own)
	if err != nil {
		t.Fatal(err)
	}
	inside, err := permissions.Users(schemas.Subjects{}, nil, users(permissions.ModelServer))
	if err != nil {
		t.Fatal(err)
	}
	_, inside, _ = strings.Cut(inside, "users: [\n")
	inside, _, _ = strings.Cut(inside, "\n  ]")
	return serve(t, strings.Replace(config, "    users: [\n", "    users: [\n"+inside+"\n", 1))
}

// asking is a client of models with an account of its own, and the requests as the server of models gets them.
func asking(t *testing.T) (client *models.Client, server *nats.Conn, requests, control *nats.Subscription) {
	t.Helper()
	addr := crossing(t, users(permissions.ModelUser))
	server = as(t, addr, string(permissions.ModelServer))
	requests, err := server.QueueSubscribeSync("agent.model.request", "models")
	if err == nil {
		control, err = server.SubscribeSync("agent.model.call.*")
	}
	if err == nil {
		err = server.FlushTimeout(10 * time.Second)
	}
	if err != nil {
		t.Fatal(err)
	}
	conn := bustest.Dial(t, bus.ConnOptions{URL: "nats://model_user:model_user@" + addr,
		Dial: dial.Settings{InboxPrefix: "_INBOX_model_user"}})
	return models.NewClient(conn, models.ClientOptions{IdleTimeout: time.Hour}), server, requests, control
}

// say has the server answer a request with message n of a call.
func say(t *testing.T, server *nats.Conn, request *nats.Msg, n int, frame string) {
	t.Helper()
	m := nats.NewMsg(request.Reply)
	m.Reply, m.Data = "agent.model.call.c1", []byte(frame)
	m.Header.Set(schemas.HeaderModelSeq, fmt.Sprint(n))
	if err := server.PublishMsg(m); err != nil {
		t.Fatal(err)
	}
	if err := server.FlushTimeout(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	if err := server.LastError(); err != nil {
		t.Fatalf("the server of models may not answer: %v", err)
	}
}

const (
	frameCall = `{"call":"c1"}`
	frameDone = `{"event":{"type":"done","reason":"stop"},"message":{"role":"assistant","content":[{"type":"text",` +
		`"text":"hi"}],"api":"a","provider":"p","model":"m","usage":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,` +
		`"totalTokens":0,"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}},"stopReason":"stop",` +
		`"timestamp":1}}`
)

// Who serves models and may do nothing else answers also those who have accounts of their own.
func TestAModelServerAnswersAnotherAccount(t *testing.T) {
	t.Parallel()
	client, server, requests, _ := asking(t)
	last := make(chan schemas.StreamEvent, 1)
	go func() {
		var e schemas.StreamEvent
		for e = range client.Stream(bustest.Deadline(t), schemas.ModelRequest{Model: schemas.ModelRef{ID: "m"}}) {
		}
		last <- e
	}()
	request, err := requests.NextMsgWithContext(bustest.Deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	say(t, server, request, 1, frameCall)
	say(t, server, request, 2, frameDone)
	if e := bustest.Within(t, last); e.Type != schemas.StreamDone || e.Message.Content.JoinText() != "hi" {
		t.Errorf("the reply: %+v", e)
	}
}

// A call that is cancelled before its server has said anything is cancelled when the server does, also where it comes
// from another account: the reply subject of an answer is then the NATS server's own.
func TestACallOfAnotherAccountIsCancelledLate(t *testing.T) {
	t.Parallel()
	client, server, requests, control := asking(t)
	ctx, cancel := context.WithCancel(bustest.Deadline(t))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range client.Stream(ctx, schemas.ModelRequest{Model: schemas.ModelRef{ID: "m"}}) {
		}
	}()
	request, err := requests.NextMsgWithContext(bustest.Deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	bustest.Within(t, ended)
	say(t, server, request, 1, frameCall+"\n"+`{"event":{"type":"text_delta","delta":"x"}}`)
	m, err := control.NextMsgWithContext(bustest.Deadline(t))
	if err != nil || m.Subject != "agent.model.call.c1" ||
		m.Header.Get(schemas.HeaderModelCancel) != request.Header.Get(schemas.HeaderModelToken) {
		t.Errorf("the cancellation: %v, %v", m, err)
	}
}

// What a runner sends to the inbox of a sender reaches it in an account of its own, and nobody else.
func TestOutcomesReachAnAccount(t *testing.T) {
	t.Parallel()
	config, err := permissions.Accounts(schemas.Subjects{}, admins, users(permissions.Sender, permissions.Approver,
		permissions.Querier))
	if err != nil {
		t.Fatal(err)
	}
	addr := serve(t, config)
	admin := as(t, addr, "admin")
	inboxes := map[string]*nats.Subscription{}
	for _, u := range []string{"sender", "approver", "querier"} {
		nc := as(t, addr, u)
		if inboxes[u], err = nc.SubscribeSync(">"); err == nil {
			err = nc.FlushTimeout(10 * time.Second)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, u := range []string{"sender", "approver"} {
		for _, to := range []string{"sender", "approver", "querier"} {
			if err := admin.Publish("_INBOX_"+to+".x.y", []byte("outcome")); err != nil {
				t.Fatal(err)
			}
		}
		m, err := inboxes[u].NextMsgWithContext(bustest.Deadline(t))
		if err != nil || m.Subject != "_INBOX_"+u+".x.y" || string(m.Data) != "outcome" {
			t.Errorf("%s: %+v, %v", u, m, err)
		}
	}
	for u, inbox := range inboxes {
		for {
			m, err := inbox.NextMsg(100 * time.Millisecond)
			if err != nil {
				break
			}
			if !strings.HasPrefix(m.Subject, "_INBOX_"+u+".") {
				t.Errorf("%s sees %s", u, m.Subject)
			}
		}
	}
}
