package models_test

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
	"github.com/loopbus/loopbus/schemas"
)

// patient is a model that waits until leave is closed if the last message of a request says so.
func patient(entered chan<- struct{}, leave <-chan struct{}) modelFunc {
	return func(_ context.Context, req schemas.ModelRequest, say func(schemas.StreamEvent) bool) error {
		if m := req.Messages[len(req.Messages)-1].(*schemas.UserMessage); m.Content.JoinText() == "wait" {
			entered <- struct{}{}
			<-leave
		}
		say(done("ok"))
		return nil
	}
}

// A user who calls a slow model leaves as many places as the user takes.
func TestOneCallerLeavesPlaces(t *testing.T) {
	t.Parallel()
	const places = 8
	server := bustest.Server(t)
	entered, leave := make(chan struct{}, places), make(chan struct{})
	serveModels(t, bustest.Connect(t, server), patient(entered, leave), models.ServerOptions{Concurrency: places})
	user := func(name string) *models.Client {
		return models.NewClient(bustest.Dial(t, bus.ConnOptions{InProcess: server,
			Dial: dial.Settings{InboxPrefix: "_INBOX_" + name}}), models.ClientOptions{})
	}
	ended := make(chan *schemas.AssistantMessage, places)
	wait := func(who *models.Client) {
		go func() {
			_, last := stream(t, who, wholeRequest("wait"))
			ended <- last
		}()
		bustest.Within(t, entered)
	}
	for range places / 2 {
		wait(user("greedy")) // a connection each: they are one user
	}
	_, last := stream(t, user("greedy"), wholeRequest("hi"))
	wantFailure(t, last, "too many requests")
	wait(user("second"))
	wait(user("second"))
	_, last = stream(t, user("second"), wholeRequest("hi"))
	wantFailure(t, last, "too many requests")
	if _, last = stream(t, user("modest"), wholeRequest("hi")); last.StopReason != schemas.StopStop {
		t.Errorf("another user's call ends with %s %q", last.StopReason, last.ErrorMessage)
	}
	close(leave)
	for range places/2 + 2 {
		if m := bustest.Within(t, ended); m.StopReason != schemas.StopStop {
			t.Errorf("a call that waited ends with %s %q", m.StopReason, m.ErrorMessage)
		}
	}
}

// A user whose running calls have large requests leaves as many bytes as the user takes.
func TestOneCallerLeavesBytes(t *testing.T) {
	t.Parallel()
	const size, running = 256 << 10, 4
	server := bustest.Server(t)
	entered, leave := make(chan struct{}, running), make(chan struct{})
	serveModels(t, bustest.Connect(t, server), patient(entered, leave),
		models.ServerOptions{MaxTotal: running * (size + size/4)})
	user := func(name string) *models.Client {
		return models.NewClient(bustest.Dial(t, bus.ConnOptions{InProcess: server,
			Dial: dial.Settings{InboxPrefix: "_INBOX_" + name}}), models.ClientOptions{})
	}
	large := func(text string) schemas.ModelRequest {
		req := wholeRequest(text)
		req.SystemPrompt = strings.Repeat("x", size)
		return req
	}
	ended := make(chan *schemas.AssistantMessage, running)
	for range running / 2 {
		go func() {
			_, last := stream(t, user("greedy"), large("wait"))
			ended <- last
		}()
		bustest.Within(t, entered)
	}
	_, last := stream(t, user("greedy"), large("hi"))
	wantFailure(t, last, "")
	if _, last = stream(t, user("modest"), large("hi")); last.StopReason != schemas.StopStop {
		t.Errorf("another user's call ends with %s %q", last.StopReason, last.ErrorMessage)
	}
	close(leave)
	for range running / 2 {
		if m := bustest.Within(t, ended); m.StopReason != schemas.StopStop {
			t.Errorf("a call that waited ends with %s %q", m.StopReason, m.ErrorMessage)
		}
	}
}

// Of requests that are not whole, those of the user who has begun the most end first.
func TestManyUnfinishedRequestsEndTheirOwn(t *testing.T) {
	t.Parallel()
	const most = 4
	server := bustest.Server(t)
	serveModels(t, bustest.Connect(t, server), patient(nil, nil),
		models.ServerOptions{Concurrency: most, Heartbeat: 20 * time.Millisecond})
	begin := func(user, reply string) *nats.Subscription {
		c := bustest.Dial(t, bus.ConnOptions{InProcess: server, Dial: dial.Settings{InboxPrefix: "_INBOX_" + user}})
		answers, err := c.NATS().SubscribeSync("_INBOX_" + user + "." + reply)
		if err == nil {
			t.Cleanup(func() { _ = answers.Unsubscribe() })
			err = c.NATS().PublishMsg(&nats.Msg{Subject: c.Subjects().ModelRequest(), Reply: answers.Subject,
				Data:   []byte("{"),
				Header: nats.Header{schemas.HeaderModelSeq: {"1"}, schemas.HeaderModelMore: {"1"}}})
		}
		if err != nil {
			t.Fatal(err)
		}
		return answers
	}
	next := func(answers *nats.Subscription) string {
		m, err := answers.NextMsgWithContext(bustest.Deadline(t))
		if err != nil {
			t.Fatal(err)
		}
		return string(m.Data)
	}
	modest := begin("modest", "a")
	next(modest) // the request was received
	for n := range 2 * most {
		next(begin("greedy", fmt.Sprint(n)))
	}
	for range 3 { // heartbeats follow, and no error
		if text := next(modest); strings.Contains(text, string(schemas.FailureOverloaded)) {
			t.Fatalf("a request ended for those of another user: %s", text)
		}
	}
}
