package models_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/models"
	"github.com/loopbus/loopbus/schemas"
)

// A client that begins requests and never ends them keeps nobody from the models. Each of them is answered: the ones
// that were begun first end for those that come later.
func TestUnfinishedRequestsKeepNobodyOut(t *testing.T) {
	t.Parallel()
	const most = 3
	server := bustest.Server(t)
	model := modelFunc(func(_ context.Context, _ schemas.ModelRequest, say func(schemas.StreamEvent) bool) error {
		say(done("hi"))
		return nil
	})
	serveModels(t, bustest.Connect(t, server), model, models.ServerOptions{Concurrency: most})
	caller := bustest.Connect(t, server)
	inbox := nats.NewInbox()
	answers, err := caller.NATS().SubscribeSync(inbox + ".*")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answers.Unsubscribe() }() // or the connection waits for it before it closes
	for n := range 4 * most {
		m := &nats.Msg{Subject: caller.Subjects().ModelRequest(), Reply: fmt.Sprintf("%s.%d", inbox, n), Data: []byte("{"),
			Header: nats.Header{schemas.HeaderModelSeq: {"1"}, schemas.HeaderModelMore: {"1"}}}
		if err := caller.NATS().PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	for ended := 0; ended < 3*most; {
		m, err := answers.NextMsgWithContext(bustest.Deadline(t))
		if err != nil {
			t.Fatalf("%d of the requests have ended: %v", ended, err)
		}
		if strings.Contains(string(m.Data), string(schemas.FailureOverloaded)) {
			ended++
		}
	}
	_, last := stream(t, models.NewClient(caller, models.ClientOptions{}), wholeRequest("hi"))
	if last.StopReason != schemas.StopStop {
		t.Errorf("a whole request ends with %s %q", last.StopReason, last.ErrorMessage)
	}
}

// Large requests that are never ended hold no bytes that others need.
func TestUnfinishedRequestsHoldNoBytes(t *testing.T) {
	t.Parallel()
	const requests, size = 4, 512 << 10
	server := bustest.Server(t)
	model := modelFunc(func(_ context.Context, _ schemas.ModelRequest, say func(schemas.StreamEvent) bool) error {
		say(done("hi"))
		return nil
	})
	serveModels(t, bustest.Connect(t, server), model, models.ServerOptions{MaxTotal: requests * size})
	caller := bustest.Connect(t, server)
	inbox := nats.NewInbox()
	answers, err := caller.NATS().SubscribeSync(inbox)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answers.Unsubscribe() }()
	for range requests {
		m := &nats.Msg{Subject: caller.Subjects().ModelRequest(), Reply: inbox, Data: make([]byte, size),
			Header: nats.Header{schemas.HeaderModelSeq: {"1"}, schemas.HeaderModelMore: {"1"}}}
		if err := caller.NATS().PublishMsg(m); err != nil {
			t.Fatal(err)
		}
		if _, err := answers.NextMsgWithContext(bustest.Deadline(t)); err != nil { // it has arrived
			t.Fatal(err)
		}
	}
	_, last := stream(t, models.NewClient(caller, models.ClientOptions{}), wholeRequest("hi"))
	if last.StopReason != schemas.StopStop {
		t.Errorf("a whole request ends with %s %q", last.StopReason, last.ErrorMessage)
	}
}
