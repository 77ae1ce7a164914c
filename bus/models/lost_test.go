package models_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/models"
	"github.com/loopbus/loopbus/schemas"
)

// halfReply returns a model that streams "half", waits until its context ends, and then closes ended.
func halfReply(ended chan<- struct{}) modelFunc {
	return func(ctx context.Context, _ schemas.ModelRequest, say func(schemas.StreamEvent) bool) error {
		say(start())
		say(piece("half"))
		<-ctx.Done()
		say(schemas.StreamEvent{Type: schemas.StreamError, Reason: schemas.StopAborted,
			Message: reply("half", schemas.StopAborted)})
		close(ended)
		return nil
	}
}

// await waits until c is closed. It fails the test if that takes too long.
func await(t *testing.T, what string, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-bustest.Deadline(t).Done():
		t.Fatalf("never happened: %s", what)
	}
}

// streamHalf streams a reply, calls then at its text delta, and returns the last message.
func streamHalf(t *testing.T, ctx context.Context, c *models.Client, then func()) (last *schemas.AssistantMessage) {
	t.Helper()
	for e, err := range c.Stream(ctx, wholeRequest("hi")) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == schemas.StreamTextDelta {
			then()
		}
		if last = e.Message; e.Terminal() && e.Reason == schemas.StopError && e.FailureCode != schemas.FailureConnection {
			t.Errorf("a lost call has the code %q", e.FailureCode)
		}
	}
	if last == nil {
		t.Fatal("the stream ends without a message")
	}
	return last
}

func TestCancelReachesTheModel(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t)
	ended := make(chan struct{})
	// Without heartbeats only the cancellation can end the call.
	serveModels(t, bustest.Connect(t, server), halfReply(ended), models.ServerOptions{Heartbeat: time.Hour})
	ctx, cancel := context.WithCancel(bustest.Deadline(t))
	last := streamHalf(t, ctx, models.NewClient(bustest.Connect(t, server), models.ClientOptions{IdleTimeout: time.Hour}),
		cancel)
	await(t, "the model stops", ended)
	if last.StopReason != schemas.StopAborted || last.Content.JoinText() != "half" {
		t.Errorf("the reply ends with %s and the text %q, want aborted with what had come", last.StopReason,
			last.Content.JoinText())
	}
}

func TestBreakingTheStreamCancelsTheCall(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t)
	ended := make(chan struct{})
	serveModels(t, bustest.Connect(t, server), halfReply(ended), models.ServerOptions{Heartbeat: time.Hour})
	for range models.NewClient(bustest.Connect(t, server), models.ClientOptions{}).Stream(bustest.Deadline(t),
		wholeRequest("hi")) {
		break
	}
	await(t, "the model stops", ended)
}

// TestLostCallerEndsTheCall closes the caller's connection: the server receives no cancellation.
func TestLostCallerEndsTheCall(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t)
	ended := make(chan struct{})
	serveModels(t, bustest.Connect(t, server), halfReply(ended), models.ServerOptions{Heartbeat: 10 * time.Millisecond})
	caller := bustest.Connect(t, server)
	last := streamHalf(t, bustest.Deadline(t), models.NewClient(caller, models.ClientOptions{}), caller.Close)
	await(t, "the model stops", ended)
	wantFailure(t, last, "connection lost")
}

// A server may send as much as it likes to the inbox of a client that has called it. The process that has the client
// receives that on another connection than everything else.
func TestAnswersHaveAConnectionOfTheirOwn(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t)
	flooding, caller := bustest.Connect(t, server).NATS(), bustest.Connect(t, server)
	requests, err := flooding.SubscribeSync("agent.model.request")
	if err == nil {
		err = flooding.FlushTimeout(10 * time.Second)
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(bustest.Deadline(t))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range models.NewClient(caller, models.ClientOptions{}).Stream(ctx, wholeRequest("hi")) {
		}
	}()
	request, err := requests.NextMsgWithContext(bustest.Deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	await(t, "the call has ended", ended)
	before := caller.NATS().Stats().InMsgs
	for range 1000 {
		if err := flooding.Publish(request.Reply, []byte("more")); err != nil {
			t.Fatal(err)
		}
	}
	for _, nc := range []*nats.Conn{flooding, caller.NATS()} {
		if err := nc.FlushTimeout(10 * time.Second); err != nil {
			t.Fatal(err)
		}
	}
	if more := caller.NATS().Stats().InMsgs - before; more != 0 {
		t.Errorf("%d messages of the flood came on the connection of everything else", more)
	}
}

func TestLostServerFailsTheCall(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t)
	ended := make(chan struct{})
	serving := bustest.Connect(t, server)
	serveModels(t, serving, halfReply(ended), models.ServerOptions{StopTimeout: time.Millisecond})
	client := models.NewClient(bustest.Connect(t, server), models.ClientOptions{IdleTimeout: time.Second})
	last := streamHalf(t, bustest.Deadline(t), client, serving.NATS().Close)
	wantFailure(t, last, "connection lost")
}

func TestStoppedServerFailsTheCall(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t)
	ended := make(chan struct{})
	stop := serveModels(t, bustest.Connect(t, server), halfReply(ended),
		models.ServerOptions{StopTimeout: time.Millisecond})
	client := models.NewClient(bustest.Connect(t, server), models.ClientOptions{})
	last := streamHalf(t, bustest.Deadline(t), client, stop)
	wantFailure(t, last, "connection lost: the runner that serves the model stops")
	_, last = stream(t, client, wholeRequest("another"))
	wantFailure(t, last, "no runner serves models")
}

func TestStoppingServerWaitsForRunningCalls(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t)
	finish := make(chan struct{})
	var begun atomic.Bool
	model := modelFunc(func(ctx context.Context, _ schemas.ModelRequest, say func(schemas.StreamEvent) bool) error {
		if begun.Swap(true) { // a later call, before the server stops
			say(done("late"))
			return nil
		}
		say(piece("half"))
		select {
		case <-finish:
		case <-ctx.Done():
		}
		say(done("whole"))
		return nil
	})
	stop := serveModels(t, bustest.Connect(t, server), model, models.ServerOptions{StopTimeout: time.Hour})
	client := models.NewClient(bustest.Connect(t, server), models.ClientOptions{})
	stopped := make(chan struct{})
	last := streamHalf(t, bustest.Deadline(t), client, func() {
		go func() { defer close(stopped); stop() }()
		bustest.Eventually(t, "the server accepts no more calls", func() bool {
			_, last := stream(t, client, wholeRequest("late"))
			return last.StopReason == schemas.StopError
		})
		close(finish)
	})
	await(t, "the server stops", stopped)
	if last.StopReason != schemas.StopStop || last.Content.JoinText() != "whole" {
		t.Errorf("the reply ends with %s %q", last.StopReason, last.ErrorMessage)
	}
}

// TestHeartbeatsKeepASlowModel has a model that streams nothing for longer than the idle timeout of the client.
func TestHeartbeatsKeepASlowModel(t *testing.T) {
	t.Parallel()
	const idle = 2 * time.Second
	server := bustest.Server(t)
	model := modelFunc(func(_ context.Context, _ schemas.ModelRequest, say func(schemas.StreamEvent) bool) error {
		<-time.After(idle + idle/8)
		say(done("at last"))
		return nil
	})
	serveModels(t, bustest.Connect(t, server), model, models.ServerOptions{Heartbeat: 50 * time.Millisecond})
	_, last := stream(t, models.NewClient(bustest.Connect(t, server), models.ClientOptions{IdleTimeout: idle}),
		wholeRequest("hi"))
	if last.Content.JoinText() != "at last" {
		t.Errorf("the reply ends with %s %q", last.StopReason, last.ErrorMessage)
	}
}

func TestServerProtocolErrorsFailTheCall(t *testing.T) {
	t.Parallel()
	half, whole := piece("half"), done("whole")
	for _, c := range []struct {
		name   string
		want   string
		answer func(t *testing.T, say func(seq int, frame string))
	}{
		{"lose a message", "connection lost: message 2", func(t *testing.T, say func(int, string)) {
			say(1, `{"call":"c1"}`)
			say(3, frame(t, schemas.ModelFrame{Event: &whole, Message: whole.Message}))
		}},
		{"send one twice", "connection lost: message 3", func(t *testing.T, say func(int, string)) {
			say(1, `{"call":"c1"}`)
			say(2, frame(t, schemas.ModelFrame{Event: &half}))
			say(2, frame(t, schemas.ModelFrame{Event: &half}))
		}},
		{"send nothing", "connection lost: the server of the model has sent nothing for",
			func(*testing.T, func(int, string)) {}},
		{"fall silent", "connection lost: the server of the model has sent nothing for",
			func(t *testing.T, say func(int, string)) {
				say(1, `{"call":"c1"}`)
			}},
		{"send no JSON", "message 1 of the model call", func(_ *testing.T, say func(int, string)) { say(1, "hello") }},
		{"send an event nobody knows", "unknown stream event", func(_ *testing.T, say func(int, string)) {
			say(1, `{"event":{"type":"song"}}`)
		}},
		{"end without a message", "done without a message", func(_ *testing.T, say func(int, string)) {
			say(1, `{"event":{"type":"done","reason":"stop"}}`)
		}},
		{"call without end", "the reply has more than 3 tool calls", func(t *testing.T, say func(int, string)) {
			m := *whole.Message
			for range 4 {
				m.Content = append(m.Content, schemas.ToolCall{ID: "x", Name: "echo"})
			}
			say(1, frame(t, schemas.ModelFrame{Event: &whole, Message: &m}))
		}},
		{"say too much at once", "the reply has more than 5000 bytes", func(t *testing.T, say func(int, string)) {
			much := done(strings.Repeat("x", 5001))
			say(1, frame(t, schemas.ModelFrame{Event: &much, Message: much.Message}))
		}},
		{"say too much by and by", "the reply has more than 5000 bytes", func(t *testing.T, say func(int, string)) {
			for i := range 1001 {
				say(i+1, frame(t, schemas.ModelFrame{Event: &half}))
			}
		}},
		{"say nothing for ever", "the reply has more than 5000 bytes", func(t *testing.T, say func(int, string)) {
			for i := range 5001 {
				say(i+1, `{"event":{"type":"text_delta","contentIndex":0,"delta":""}}`)
			}
		}},
		{"send heartbeats for ever", "the messages of the reply have more than 2097152 bytes",
			func(t *testing.T, say func(int, string)) {
				for i := range 40_000 {
					say(i+1, "")
				}
			}},
		{"send frames without an event for ever", "the messages of the reply have more than 2097152 bytes",
			func(t *testing.T, say func(int, string)) {
				nothing := `{"other":"` + strings.Repeat("x", 1000) + `"}`
				for i := range 2100 {
					say(i+1, nothing)
				}
			}},
		{"bring huge arguments", "the arguments of a tool call have more than 1000 bytes",
			func(t *testing.T, say func(int, string)) {
				m := *whole.Message
				m.Content = schemas.Contents{schemas.ToolCall{ID: "x", Name: "echo",
					Arguments: json.RawMessage(`{"x":"` + strings.Repeat("x", 1000) + `"}`)}}
				say(1, frame(t, schemas.ModelFrame{Event: &whole, Message: &m}))
			}},
		{"give the reply a huge id", "the reply has more than 5000 bytes", func(t *testing.T, say func(int, string)) {
			m := *whole.Message
			m.ResponseID = strings.Repeat("x", 5001)
			say(1, frame(t, schemas.ModelFrame{Event: &whole, Message: &m}))
		}},
		{"begin calls for ever", "the reply has more than 5000 bytes", func(t *testing.T, say func(int, string)) {
			call := schemas.StreamEvent{Type: schemas.StreamToolCallStart,
				ToolCall: &schemas.ToolCall{ID: strings.Repeat("x", 4000), Name: "echo", Arguments: json.RawMessage("{}")}}
			for i := range 100 {
				say(i+1, frame(t, schemas.ModelFrame{Event: &call}))
			}
			say(101, frame(t, schemas.ModelFrame{Event: &whole, Message: whole.Message}))
		}},
		{"name an illegal call", "illegal subject", func(_ *testing.T, say func(int, string)) { say(1, `{"call":"x.>"}`) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			server := bustest.Server(t)
			rawServer(t, bustest.Connect(t, server), func(say func(int, string)) { c.answer(t, say) })
			idle := 30 * time.Second
			if c.name == "send nothing" || c.name == "fall silent" {
				idle = 50 * time.Millisecond
			}
			_, last := stream(t, models.NewClient(bustest.Connect(t, server), models.ClientOptions{IdleTimeout: idle,
				Bounds: models.Bounds{Reply: 5000, Arguments: 1000, Calls: 3, Answer: 2 << 20}}), wholeRequest("hi"))
			wantFailure(t, last, c.want)
		})
	}
}
