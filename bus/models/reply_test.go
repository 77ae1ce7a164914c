package models_test

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/models"
	"github.com/loopbus/loopbus/schemas"
)

// A client may not have a model's answer published where the client itself may not publish.
func TestServedModelsAnswerInboxesOnly(t *testing.T) {
	t.Parallel()
	conn := bustest.Connect(t, bustest.Server(t))
	says := func(_ context.Context, _ schemas.ModelRequest, say func(schemas.StreamEvent) bool) error {
		say(done("said"))
		return nil
	}
	serveModels(t, conn, modelFunc(says), models.ServerOptions{})
	victim, err := conn.NATS().SubscribeSync("agent.>")
	if err != nil {
		t.Fatal(err)
	}
	own, err := conn.NATS().SubscribeSync("_INBOX_me.1")
	if err != nil {
		t.Fatal(err)
	}
	for _, reply := range []string{"agent.cmd.s2.prompt", "agent.evt.s2", "agent.live.s2.update", own.Subject} {
		err := conn.NATS().PublishMsg(&nats.Msg{Subject: "agent.model.request", Reply: reply, Data: []byte("{}")})
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := own.NextMsgWithContext(bustest.Deadline(t)); err != nil {
		t.Fatalf("an inbox was not answered: %v", err)
	}
	for n, _, _ := victim.Pending(); n > 0; n, _, _ = victim.Pending() {
		m, err := victim.NextMsgWithContext(bustest.Deadline(t))
		if err != nil {
			t.Fatal(err)
		}
		if m.Subject != (schemas.Subjects{}).ModelRequest() {
			t.Errorf("answered at %s: %q", m.Subject, m.Data)
		}
	}
	for _, sub := range []*nats.Subscription{victim, own} { // closing the connection would wait for what nobody reads
		if err := sub.Unsubscribe(); err != nil {
			t.Error(err)
		}
	}
}
