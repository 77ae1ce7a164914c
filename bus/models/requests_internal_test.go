package models

import (
	"context"
	"iter"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/schemas"
)

// telling is a model that tells of each request.
type telling chan string

func (m telling) Stream(_ context.Context, req schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	return func(yield func(schemas.StreamEvent, error) bool) {
		m <- req.Model.ID
		yield(schemas.StreamEvent{Type: schemas.StreamDone, Message: &schemas.AssistantMessage{}}, nil)
	}
}

// serve serves a model that tells of its requests until the test ends.
func serve(t *testing.T, conn *bus.Conn) (s *Server, asked telling) {
	asked = make(telling, 10)
	s = NewServer(conn, ServerOptions{Model: asked})
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	bustest.Within(t, s.Ready())
	return s, asked
}

// TestRequestsDoNotBurdenTheProcess serves models: requests come by a connection of their own, and only two large ones
// are decoded at once. Small ones do not wait for these, and a large one that is cancelled while it waits ends.
func TestRequestsDoNotBurdenTheProcess(t *testing.T) {
	t.Parallel()
	conn := bustest.Connect(t, bustest.Server(t))
	before := conn.NATS().NumSubscriptions()
	s, asked := serve(t, conn)
	if n := conn.NATS().NumSubscriptions() - before; n != 0 {
		t.Errorf("%d subscriptions on the connection of the process", n)
	}
	client := NewClient(conn, ClientOptions{})
	call := func(ctx context.Context, id string, bytes int) chan schemas.StopReason {
		over := make(chan schemas.StopReason, 1)
		req := schemas.ModelRequest{Model: schemas.ModelRef{ID: id}, SystemPrompt: strings.Repeat("x", bytes)}
		go func() {
			var last schemas.StreamEvent
			for e := range client.Stream(ctx, req) {
				last = e
			}
			over <- last.Reason
		}()
		return over
	}
	serves := func(calls int) {
		t.Helper()
		bustest.Eventually(t, "calls are served", func() bool {
			s.mu.Lock()
			defer s.mu.Unlock()
			return len(s.serving) == calls
		})
	}
	for range atOnce {
		s.decoding <- struct{}{}
	}
	aborted, abort := context.WithCancel(bustest.Deadline(t))
	cancelled, large := call(aborted, "cancelled", decodedFreely), call(bustest.Deadline(t), "large", decodedFreely)
	small := call(bustest.Deadline(t), "small", 1)
	if id := bustest.Within(t, asked); id != "small" {
		t.Errorf("asked for %s", id)
	}
	bustest.Within(t, small)
	serves(2)
	abort()
	if reason := bustest.Within(t, cancelled); reason != schemas.StopAborted {
		t.Errorf("cancelled: %s", reason)
	}
	serves(1)
	for range atOnce {
		<-s.decoding
	}
	if id := bustest.Within(t, asked); id != "large" {
		t.Errorf("asked for %s", id)
	}
	bustest.Within(t, large)
}

// TestHeadersOfRequestsAreNotKept sends requests with many headers, and with a large one: they are refused. Of another
// first message only what the call needs is kept.
func TestHeadersOfRequestsAreNotKept(t *testing.T) {
	t.Parallel()
	conn := bustest.Connect(t, bustest.Server(t))
	_, asked := serve(t, conn)
	many := nats.Header{}
	for i := range maxHeaders {
		many[strconv.Itoa(i)] = []string{"x"}
	}
	for name, header := range map[string]nats.Header{"many": many,
		"large": {"x": {strings.Repeat("x", maxHeaderBytes)}}} {
		header[schemas.HeaderModelToken] = []string{"t"}
		answers, err := conn.NATS().SubscribeSync("_INBOX.models." + name)
		if err != nil {
			t.Fatal(err)
		}
		request := &nats.Msg{Subject: conn.Subjects().ModelRequest(), Reply: answers.Subject, Header: header,
			Data: []byte(`{"model":{"id":"m"},"messages":[]}`)}
		if err := conn.NATS().PublishMsg(request); err != nil {
			t.Fatal(err)
		}
		m, err := answers.NextMsgWithContext(bustest.Deadline(t))
		if err != nil || !strings.Contains(string(m.Data), "more of a header") {
			t.Errorf("%s: %s, %v", name, m.Data, err)
		}
	}
	if len(asked) > 0 {
		t.Error("the model was asked")
	}
	first := &nats.Msg{Reply: "r", Data: []byte("x"), Header: nats.Header{"x": {"y"}, schemas.HeaderModelToken: {"t"}}}
	kept := withoutPayload(first)
	if kept.Reply != "r" || kept.Data != nil || len(kept.Header) != 1 || kept.Header.Get(schemas.HeaderModelToken) != "t" {
		t.Errorf("kept: %+v", kept)
	}
}
