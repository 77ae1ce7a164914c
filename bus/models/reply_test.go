package models_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/models"
	"github.com/loopbus/loopbus/schemas"
)

// A server publishes answers only to inboxes: a client must not make it publish where the client itself may not.
func TestServedModelsAnswerInboxesOnly(t *testing.T) {
	t.Parallel()
	conn := bustest.Connect(t, bustest.Server(t))
	model := func(_ context.Context, _ schemas.ModelRequest, say func(schemas.StreamEvent) bool) error {
		say(done("said"))
		return nil
	}
	serveModels(t, conn, modelFunc(model), models.ServerOptions{})
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
	for _, sub := range []*nats.Subscription{victim, own} { // else closing the connection waits for pending messages
		if err := sub.Unsubscribe(); err != nil {
			t.Error(err)
		}
	}
}

// TestFrameOfManyValuesIsNotDecoded has a server whose frame is small but would take much memory when decoded.
func TestFrameOfManyValuesIsNotDecoded(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t)
	rogue, asker := bustest.Connect(t, server), bustest.Connect(t, server)
	_, err := rogue.NATS().QueueSubscribe(rogue.Subjects().ModelRequest(), "models", func(m *nats.Msg) {
		for i, frame := range []string{
			`{"event":{"type":"start"},"message":{"role":"assistant","content":[],"stopReason":"stop"}}`,
			`{"event":{"type":"done"},"message":{"role":"assistant","content":[{"type":"toolCall","id":"c","name":"ls",` +
				`"arguments":{"a":[` + strings.Repeat("0,", 400_000) + `0]}}],"stopReason":"stop"}}`,
		} {
			answer := &nats.Msg{Subject: m.Reply, Header: nats.Header{schemas.HeaderModelSeq: {strconv.Itoa(i + 1)}},
				Data: []byte(frame)}
			if err := rogue.NATS().PublishMsg(answer); err != nil {
				t.Error(err)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := rogue.NATS().Flush(); err != nil {
		t.Fatal(err)
	}
	events, last := stream(t, models.NewClient(asker, models.ClientOptions{}), wholeRequest("hi"))
	if code := events[len(events)-1].FailureCode; code != schemas.FailureTooLarge || len(last.Content) != 0 {
		t.Errorf("%s with %d blocks, want too_large", code, len(last.Content))
	}
}

// Only the caller aborts a reply. A server that ends one as aborted has failed, and the call may be retried.
func TestAServerDoesNotAbort(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t)
	for _, end := range []schemas.StreamEventType{schemas.StreamError, schemas.StreamDone} {
		m := reply("half", schemas.StopAborted)
		e := schemas.StreamEvent{Type: end, Reason: schemas.StopAborted}
		said := frame(t, schemas.ModelFrame{Event: &e, Message: m})
		conn := bustest.Connect(t, server)
		rawServer(t, conn, func(say func(int, string)) { say(1, said) })
		events, last := stream(t, models.NewClient(bustest.Connect(t, server), models.ClientOptions{}), wholeRequest("hi"))
		wantFailure(t, last, "has aborted the reply")
		if e := events[len(events)-1]; e.FailureCode != schemas.FailureConnection || last.Content.JoinText() != "half" {
			t.Errorf("%s: it ends with %q, code %q", end, last.Content.JoinText(), e.FailureCode)
		}
		conn.Close()
	}
}
