package models_test

import (
	"context"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/models"
	"github.com/loopbus/loopbus/schemas"
)

// A server that sends nothing but empty deltas ends its call, with an error after which the runner tries again.
func TestAStalledReplyEnds(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t)
	ended := make(chan struct{})
	model := modelFunc(func(ctx context.Context, _ schemas.ModelRequest, say func(schemas.StreamEvent) bool) error {
		defer close(ended)
		say(start())
		for ctx.Err() == nil {
			say(piece(""))
			<-time.After(time.Millisecond)
		}
		return ctx.Err()
	})
	serveModels(t, bustest.Connect(t, server), model, models.ServerOptions{Heartbeat: time.Hour})
	events, last := stream(t, models.NewClient(bustest.Connect(t, server),
		models.ClientOptions{StallTimeout: 50 * time.Millisecond}), wholeRequest("hi"))
	wantFailure(t, last, "nothing but events without progress for 50ms")
	if code := events[len(events)-1].FailureCode; code != schemas.FailureTimeout {
		t.Errorf("the code is %q", code)
	}
	await(t, "the model stops", ended)
}

// The time that the reader of a reply takes is not its server's.
func TestASlowReaderIsNoStall(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t)
	model := modelFunc(func(_ context.Context, _ schemas.ModelRequest, say func(schemas.StreamEvent) bool) error {
		for range 4 {
			say(piece(""))
		}
		say(done("whole"))
		return nil
	})
	serveModels(t, bustest.Connect(t, server), model, models.ServerOptions{})
	client := models.NewClient(bustest.Connect(t, server), models.ClientOptions{StallTimeout: time.Second})
	for e := range client.Stream(bustest.Deadline(t), wholeRequest("hi")) {
		if e.Type == schemas.StreamTextDelta {
			<-time.After(400 * time.Millisecond)
		} else if e.Type != schemas.StreamDone {
			t.Errorf("the reply ends with %q", e.Message.ErrorMessage)
		}
	}
}
