package models_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/models"
	"github.com/loopbus/loopbus/schemas"
)

// A caller that sends the header Loopbus-Model-Lines receives several frames in a message; another caller, as of an
// older version, receives one. No frame waits for a later one: the model continues only when its caller has the first
// event.
func TestFramesAreBatched(t *testing.T) {
	t.Parallel()
	for _, lines := range []bool{false, true} {
		server := bustest.Server(t)
		received := make(chan struct{})
		model := modelFunc(func(_ context.Context, _ schemas.ModelRequest, say func(schemas.StreamEvent) bool) error {
			say(start())
			<-received
			for range 500 {
				say(piece(strings.Repeat("x", 100)))
			}
			say(done("hello"))
			return nil
		})
		serveModels(t, bustest.Connect(t, server), model, models.ServerOptions{})
		conn := bustest.Connect(t, server)
		answers, err := conn.NATS().SubscribeSync(conn.NATS().NewInbox())
		if err != nil {
			t.Fatal(err)
		}
		data, err := schemas.Marshal(wholeRequest("hi"))
		if err != nil {
			t.Fatal(err)
		}
		request := &nats.Msg{Subject: conn.Subjects().ModelRequest(), Reply: answers.Subject, Data: data,
			Header: nats.Header{schemas.HeaderModelSeq: {"1"}}}
		if lines {
			request.Header[schemas.HeaderModelLines] = []string{"1"}
		}
		if err := conn.NATS().PublishMsg(request); err != nil {
			t.Fatal(err)
		}
		var events []schemas.StreamEventType
		messages := 0
		for len(events) == 0 || !(schemas.StreamEvent{Type: events[len(events)-1]}).Terminal() {
			m, err := answers.NextMsgWithContext(bustest.Deadline(t))
			if err != nil {
				t.Fatalf("lines %t: after %d messages: %v", lines, messages, err)
			}
			if len(m.Data) == 0 {
				continue // a heartbeat
			}
			messages++
			if !lines && bytes.Contains(m.Data, []byte("\n")) {
				t.Errorf("several frames in a message to a caller without lines: %s", m.Data)
			}
			for line := range bytes.SplitSeq(m.Data, []byte("\n")) {
				f, err := schemas.DecodeModelFrame(line)
				if err != nil {
					t.Fatal(err)
				}
				if f.Event != nil {
					events = append(events, f.Event.Type)
				}
			}
			if len(events) == 1 {
				received <- struct{}{}
			}
		}
		if len(events) != 502 {
			t.Errorf("lines %t: %d events, want 502", lines, len(events))
		}
		if lines && messages > 400 {
			t.Errorf("%d messages for %d events: frames are not batched", messages, len(events))
		}
	}
}
