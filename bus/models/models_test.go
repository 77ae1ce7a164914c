package models_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/embedded"
	"github.com/loopbus/loopbus/bus/models"
	"github.com/loopbus/loopbus/schemas"
)

// wholeRequest returns a request with a system prompt, a message and a tool.
func wholeRequest(text string) schemas.ModelRequest {
	return schemas.ModelRequest{
		Model: onBus("vendor/m"), SystemPrompt: "be brief", ThinkingLevel: schemas.ThinkingHigh, SessionID: "s1", Attempt: 2,
		Messages: schemas.Messages{&schemas.UserMessage{Content: schemas.Contents{schemas.Text{Text: text}}}},
		Tools:    []schemas.ToolDefinition{{Name: "ls", Parameters: json.RawMessage(`{"type":"object"}`)}},
	}
}

func TestModelBehindTheBus(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t)
	said := []schemas.StreamEvent{start(), {Type: schemas.StreamTextStart}, piece("hello"), piece(" you"),
		{Type: schemas.StreamTextEnd, Content: "hello you"},
		{Type: schemas.StreamToolCallStart, ContentIndex: 1, ToolCall: &schemas.ToolCall{ID: "t1", Name: "ls"}},
		done("hello you")}
	var got schemas.ModelRequest
	model := modelFunc(func(_ context.Context, req schemas.ModelRequest, say func(schemas.StreamEvent) bool) error {
		got = req
		for _, e := range said {
			say(e)
		}
		return nil
	})
	serveModels(t, bustest.Connect(t, server), model, models.ServerOptions{})
	req := wholeRequest("hi")
	events, _ := stream(t, models.NewClient(bustest.Connect(t, server), models.ClientOptions{}), req)
	if d := cmp.Diff(said, events); d != "" {
		t.Errorf("events (-sent +received):\n%s", d)
	}
	req.Model = schemas.ModelRef{ID: "vendor/m"}
	if d := cmp.Diff(req, got); d != "" {
		t.Errorf("request (-sent +served):\n%s", d)
	}
}

// TestModelCallsMatchTheirSchemas validates every payload of a call.
func TestModelCallsMatchTheirSchemas(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t)
	watching := bustest.Connect(t, server).NATS()
	tap, err := watching.SubscribeSync(">")
	if err == nil {
		err = watching.FlushWithContext(bustest.Deadline(t)) // the subscription is active before the first call
	}
	if err != nil {
		t.Fatal(err)
	}
	model := modelFunc(func(_ context.Context, _ schemas.ModelRequest, say func(schemas.StreamEvent) bool) error {
		call := &schemas.ToolCall{ID: "t1", Name: "ls", Arguments: json.RawMessage(`{}`)}
		say(start())
		say(piece("hello"))
		say(schemas.StreamEvent{Type: schemas.StreamToolCallStart, ContentIndex: 1, ToolCall: call})
		say(schemas.StreamEvent{Type: schemas.StreamToolCallEnd, ContentIndex: 1, ToolCall: call})
		say(done("hello"))
		return nil
	})
	serveModels(t, bustest.Connect(t, server), model, models.ServerOptions{})
	client := models.NewClient(bustest.Connect(t, server), models.ClientOptions{})
	stream(t, client, wholeRequest("hi"))
	stream(t, client, schemas.ModelRequest{Model: onBus("m")})
	for requests, frames := 0, 0; requests+frames < 2+2*6; {
		m, err := tap.NextMsgWithContext(bustest.Deadline(t))
		if err != nil {
			t.Fatalf("after %d requests and %d frames: %v", requests, frames, err)
		}
		switch {
		case m.Subject == "agent.model.request":
			requests++
			err = schemas.ValidateModelRequest(m.Data)
		case m.Header.Get(schemas.HeaderModelSeq) != "" && len(m.Data) > 0:
			for line := range bytes.SplitSeq(m.Data, []byte("\n")) {
				frames++
				err = errors.Join(err, schemas.ValidateModelFrame(line))
			}
		}
		if err != nil {
			t.Errorf("%s: %v in %s", m.Subject, err, m.Data)
		}
	}
}

// TestNoKeyIsSentOrLogged subscribes to all subjects.
func TestNoKeyIsSentOrLogged(t *testing.T) {
	t.Parallel()
	const secret = "sk-very-secret"
	server := bustest.Server(t)
	tap, err := bustest.Connect(t, server).NATS().SubscribeSync(">")
	if err != nil {
		t.Fatal(err)
	}
	if err := tap.SetPendingLimits(-1, -1); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	model := modelFunc(func(_ context.Context, req schemas.ModelRequest, say func(schemas.StreamEvent) bool) error {
		req.APIKey = secret
		say(start())
		panic("after " + req.Model.ID)
	})
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	stop := serveModels(t, bustest.Connect(t, server), model, models.ServerOptions{Logger: logger})
	req := wholeRequest("hi")
	req.APIKey = secret
	_, last := stream(t, models.NewClient(bustest.Connect(t, server), models.ClientOptions{}), req)
	wantFailure(t, last, "panicked")
	stop()
	if !strings.Contains(log.String(), "panicked") || strings.Contains(log.String(), secret) {
		t.Errorf("log: %s", log.String())
	}
	for n := 0; ; n++ {
		m, err := tap.NextMsg(100 * time.Millisecond)
		if err != nil {
			if n < 2 { // a request and its answer
				t.Errorf("only %d messages were seen", n)
			}
			return
		}
		if strings.Contains(string(m.Data), secret) {
			t.Errorf("%s carries the key: %s", m.Subject, m.Data)
		}
	}
}

// startSmallServer starts a NATS server with a maximum payload of 8 KiB, half of which is reserved for headers.
func startSmallServer(t *testing.T) *embedded.Server {
	t.Helper()
	s, err := embedded.Start(embedded.Options{StoreDir: t.TempDir(), MaxPayload: 8 << 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	return s
}

func TestBigRequestAndBigReply(t *testing.T) {
	t.Parallel()
	server := startSmallServer(t)
	model := modelFunc(func(_ context.Context, req schemas.ModelRequest, say func(schemas.StreamEvent) bool) error {
		text := req.Messages[0].(*schemas.UserMessage).Content.JoinText()
		say(start())
		say(done(strings.ToUpper(text)))
		return nil
	})
	serveModels(t, bustest.Connect(t, server), model, models.ServerOptions{})
	client := models.NewClient(bustest.Connect(t, server), models.ClientOptions{})
	text := strings.Repeat("all work and no play ", 2000) // 42 kB, in eleven messages
	_, last := stream(t, client, wholeRequest(text))
	if got := last.Content.JoinText(); got != strings.ToUpper(text) {
		t.Errorf("got %d bytes, want %d: %s %.100s", len(got), len(text), last.StopReason, last.ErrorMessage)
	}
}

// TestOversizedPayloadsFail has a limit of 20 kB, not 64 MiB, at the client, at the server, and for the answer.
func TestOversizedPayloadsFail(t *testing.T) {
	t.Parallel()
	const limit = 20_000
	text := strings.Repeat("all work and no play ", 2000)
	for name, c := range map[string]struct {
		client models.ClientOptions
		server models.ServerOptions
		say    string
		want   string
	}{
		"a request": {models.ClientOptions{MaxBytes: limit}, models.ServerOptions{}, text,
			"bytes, and at most 20000 go over the bus"},
		"a request at the server": {models.ClientOptions{}, models.ServerOptions{MaxBytes: limit}, text,
			"a payload of a model call has more than 20000 bytes"},
		"an answer": {models.ClientOptions{MaxBytes: limit}, models.ServerOptions{}, "hi",
			"a payload of a model call has more than 20000 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := startSmallServer(t)
			model := modelFunc(func(_ context.Context, _ schemas.ModelRequest, say func(schemas.StreamEvent) bool) error {
				say(done(text))
				return nil
			})
			serveModels(t, bustest.Connect(t, server), model, c.server)
			_, last := stream(t, models.NewClient(bustest.Connect(t, server), c.client), wholeRequest(c.say))
			wantFailure(t, last, c.want)
		})
	}
}

// Requests whose last part never arrives count against MaxTotal. When one of them has ended, the server accepts
// another.
func TestUploadsAreBounded(t *testing.T) {
	t.Parallel()
	c := bustest.Connect(t, bustest.Server(t))
	model := modelFunc(func(_ context.Context, _ schemas.ModelRequest, say func(schemas.StreamEvent) bool) error {
		say(done("here"))
		return nil
	})
	serveModels(t, c, model, models.ServerOptions{MaxTotal: 40_000}) // half of it for one caller
	inbox, err := c.NATS().SubscribeSync(c.NATS().NewInbox())
	if err != nil {
		t.Fatal(err)
	}
	begin := func(n int) {
		t.Helper()
		m := &nats.Msg{Subject: "agent.model.request", Reply: inbox.Subject, Data: make([]byte, n),
			Header: nats.Header{schemas.HeaderModelSeq: {"1"}, schemas.HeaderModelMore: {"1"}}}
		if err := c.NATS().PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	next := func() (control, text string) {
		t.Helper()
		m, err := inbox.NextMsg(30 * time.Second)
		for err == nil && len(m.Data) == 0 { // a heartbeat
			m, err = inbox.NextMsg(30 * time.Second)
		}
		if err != nil {
			t.Fatal(err)
		}
		return m.Reply, string(m.Data)
	}
	begin(15_000)
	if _, text := next(); !strings.Contains(text, `"call"`) {
		t.Fatalf("the first: %s", text)
	}
	begin(6_000) // ends the first
	second, ended, text := "", false, ""
	for second == "" || !ended {
		control, text := next()
		ended = ended || strings.Contains(text, "has taken in as much of others as it may")
		if strings.Contains(text, `"call"`) {
			second = control
		}
	}
	if err := c.NATS().PublishMsg(&nats.Msg{Subject: second,
		Header: nats.Header{schemas.HeaderModelCancel: {"1"}}}); err != nil {
		t.Fatal(err)
	}
	for !strings.Contains(text, `"aborted"`) {
		_, text = next()
	}
	bustest.Eventually(t, "there is room again", func() bool {
		_, last := stream(t, models.NewClient(c, models.ClientOptions{}), wholeRequest(strings.Repeat("x", 10_000)))
		return last.Content.JoinText() == "here"
	})
}

// A caller cancels what answers it, by the reply subject of an answer. A server that names the control subject of
// another server's call has the caller send a cancellation there, which lacks the token of that call.
func TestOnlyItsCallerCancelsACall(t *testing.T) {
	t.Parallel()
	c := bustest.Connect(t, bustest.Server(t))
	begun, pass := make(chan struct{}), make(chan struct{})
	model := modelFunc(func(ctx context.Context, _ schemas.ModelRequest, say func(schemas.StreamEvent) bool) error {
		begun <- struct{}{}
		select {
		case <-pass:
			say(done("here"))
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	serveModels(t, c, model, models.ServerOptions{})
	for _, other := range []bool{true, false} {
		inbox, err := c.NATS().SubscribeSync(c.NATS().NewInbox())
		if err != nil {
			t.Fatal(err)
		}
		request, err := schemas.Marshal(wholeRequest("go"))
		if err != nil {
			t.Fatal(err)
		}
		err = c.NATS().PublishMsg(&nats.Msg{Subject: "agent.model.request", Reply: inbox.Subject, Data: request,
			Header: nats.Header{schemas.HeaderModelSeq: {"1"}, schemas.HeaderModelToken: {"ours"}}})
		if err != nil {
			t.Fatal(err)
		}
		bustest.Within(t, begun)
		first, err := inbox.NextMsgWithContext(bustest.Deadline(t))
		if err != nil {
			t.Fatal(err)
		}
		token, want := "ours", `"aborted"`
		if other {
			token, want = "theirs", `"here"`
		}
		err = c.NATS().PublishMsg(&nats.Msg{Subject: first.Reply, Header: nats.Header{schemas.HeaderModelCancel: {token}}})
		if err == nil {
			err = c.NATS().FlushTimeout(10 * time.Second)
		}
		if err != nil {
			t.Fatal(err)
		}
		if other {
			for m := first; len(m.Data) > 0; { // until the next heartbeat: the server has received the cancellation
				if m, err = inbox.NextMsgWithContext(bustest.Deadline(t)); err != nil {
					t.Fatalf("no heartbeat: %v", err)
				}
			}
			pass <- struct{}{}
		}
		for text := ""; !strings.Contains(text, want); {
			m, err := inbox.NextMsgWithContext(bustest.Deadline(t))
			if err != nil {
				t.Fatalf("no answer with %s: %v", want, err)
			}
			text = string(m.Data)
		}
	}
}

// Decoded requests count against MaxTotal: an empty tool has three bytes of JSON, and takes two hundred in memory.
func TestDecodedRequestsAreBounded(t *testing.T) {
	t.Parallel()
	c := bustest.Connect(t, bustest.Server(t))
	model := modelFunc(func(_ context.Context, r schemas.ModelRequest, say func(schemas.StreamEvent) bool) error {
		say(done(fmt.Sprint(len(r.Tools))))
		return nil
	})
	serveModels(t, c, model, models.ServerOptions{MaxTotal: 1 << 20})
	with := func(tools int) *schemas.AssistantMessage {
		r := wholeRequest("hi")
		r.Tools = make([]schemas.ToolDefinition, tools)
		_, last := stream(t, models.NewClient(c, models.ClientOptions{}), r)
		return last
	}
	if got := with(10).Content.JoinText(); got != "10" {
		t.Errorf("ten tools: %q", got)
	}
	wantFailure(t, with(5_000), "values, more than 2048")
}

// A stream that stores requests acknowledges them, which is no part of an answer.
func TestModelCallsPassOverAcknowledgements(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	_, err := c.JetStream().CreateStream(bustest.Deadline(t),
		jetstream.StreamConfig{Name: "AUDIT", Subjects: []string{"agent.model.request"}})
	if err != nil {
		t.Fatal(err)
	}
	model := modelFunc(func(_ context.Context, _ schemas.ModelRequest, say func(schemas.StreamEvent) bool) error {
		say(start())
		say(done("hello"))
		return nil
	})
	serveModels(t, c, model, models.ServerOptions{})
	client := models.NewClient(c, models.ClientOptions{})
	for range 10 { // either may come first
		if _, last := stream(t, client, wholeRequest("hi")); last.StopReason != schemas.StopStop {
			t.Fatalf("the reply is %+v", last)
		}
	}
}

func TestCallWithoutServerFails(t *testing.T) {
	t.Parallel()
	_, last := stream(t, models.NewClient(bustest.Connect(t, bustest.Server(t)), models.ClientOptions{}),
		wholeRequest("hi"))
	wantFailure(t, last, "no runner serves models (start one with --serve-models)")
	if last.Provider != models.Provider || last.Model != "vendor/m" {
		t.Errorf("the reply is by %s/%s", last.Provider, last.Model)
	}
}

func TestModelContractViolationsFailTheCall(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		model modelFunc
		want  string
	}{
		"no end": {func(_ context.Context, _ schemas.ModelRequest, say func(schemas.StreamEvent) bool) error {
			say(piece("half"))
			return nil
		}, "ended without a terminal event"},
		"no message": {func(_ context.Context, _ schemas.ModelRequest, say func(schemas.StreamEvent) bool) error {
			say(schemas.StreamEvent{Type: schemas.StreamDone})
			return nil
		}, "ended without a terminal event"},
		"an error": {func(context.Context, schemas.ModelRequest, func(schemas.StreamEvent) bool) error {
			return errors.New("out of order")
		}, "out of order"},
		"a panic": {func(context.Context, schemas.ModelRequest, func(schemas.StreamEvent) bool) error { panic("!") },
			"vendor/m panicked"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := bustest.Server(t)
			serveModels(t, bustest.Connect(t, server), c.model, models.ServerOptions{})
			_, last := stream(t, models.NewClient(bustest.Connect(t, server), models.ClientOptions{}), wholeRequest("hi"))
			wantFailure(t, last, c.want)
		})
	}
}

func TestFullServerRefusesCalls(t *testing.T) {
	t.Parallel()
	server := bustest.Server(t)
	entered, leave := make(chan struct{}, 2), make(chan struct{})
	model := modelFunc(func(_ context.Context, _ schemas.ModelRequest, say func(schemas.StreamEvent) bool) error {
		entered <- struct{}{}
		<-leave
		say(done("ok"))
		return nil
	})
	serveModels(t, bustest.Connect(t, server), model, models.ServerOptions{Concurrency: 1})
	client := models.NewClient(bustest.Connect(t, server), models.ClientOptions{})
	first := make(chan *schemas.AssistantMessage, 1)
	go func() {
		_, last := stream(t, client, wholeRequest("hi"))
		first <- last
	}()
	<-entered
	events, last := stream(t, client, wholeRequest("me too"))
	wantFailure(t, last, "too many requests")
	if code := events[len(events)-1].FailureCode; code != schemas.FailureOverloaded {
		t.Errorf("a full server's code is %s", code)
	}
	close(leave)
	if m := <-first; m.StopReason != schemas.StopStop {
		t.Errorf("the first call ends with %s %q", m.StopReason, m.ErrorMessage)
	}
}
