package models

import (
	"context"
	"iter"
	"strings"
	"testing"

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

// TestRequestsDoNotBurdenTheProcess serves models: requests come by a connection of their own, and only two large ones
// are decoded at once. Small ones do not wait for these, and a large one that is cancelled while it waits ends.
func TestRequestsDoNotBurdenTheProcess(t *testing.T) {
	t.Parallel()
	conn := bustest.Connect(t, bustest.Server(t))
	before := conn.NATS().NumSubscriptions()
	asked := make(telling, 10)
	s := NewServer(conn, ServerOptions{Model: asked})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	bustest.Within(t, s.Ready())
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
