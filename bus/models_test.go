package bus_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/schemas"
)

// wholeRequest has a bit of everything that a model is told.
func wholeRequest(text string) schemas.ModelRequest {
	return schemas.ModelRequest{
		Model: onBus("vendor/m"), SystemPrompt: "be brief", ThinkingLevel: schemas.ThinkingHigh, SessionID: "s1", Attempt: 2,
		Messages: schemas.Messages{&schemas.UserMessage{Content: schemas.Contents{schemas.Text{Text: text}}}},
		Tools:    []schemas.ToolDefinition{{Name: "ls", Parameters: json.RawMessage(`{"type":"object"}`)}},
	}
}

func TestModelBehindTheBus(t *testing.T) {
	server := startServer(t)
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
	serveModels(t, connect(t, server), model, bus.ModelServerOptions{})
	req := wholeRequest("hi")
	events, _ := asked(t, bus.NewModelClient(connect(t, server), bus.ModelClientOptions{}), req)
	if d := cmp.Diff(said, events); d != "" {
		t.Errorf("events (-said +heard):\n%s", d)
	}
	req.Model = schemas.ModelRef{ID: "vendor/m"}
	if d := cmp.Diff(req, got); d != "" {
		t.Errorf("request (-sent +served):\n%s", d)
	}
}

// TestModelCallsKeepToTheirSchemas looks at every payload of a call.
func TestModelCallsKeepToTheirSchemas(t *testing.T) {
	server := startServer(t)
	tap, err := connect(t, server).NATS().SubscribeSync(">")
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
	serveModels(t, connect(t, server), model, bus.ModelServerOptions{})
	client := bus.NewModelClient(connect(t, server), bus.ModelClientOptions{})
	asked(t, client, wholeRequest("hi"))
	asked(t, client, schemas.ModelRequest{Model: onBus("m")})
	for requests, frames := 0, 0; requests+frames < 2+2*6; {
		m, err := tap.NextMsgWithContext(deadline(t))
		if err != nil {
			t.Fatalf("after %d requests and %d frames: %v", requests, frames, err)
		}
		switch {
		case m.Subject == "agent.model.request":
			requests++
			err = schemas.ValidateModelRequest(m.Data)
		case m.Header.Get(schemas.HeaderModelSeq) != "" && len(m.Data) > 0:
			frames++
			err = schemas.ValidateModelFrame(m.Data)
		}
		if err != nil {
			t.Errorf("%s: %v in %s", m.Subject, err, m.Data)
		}
	}
}

// TestNoKeyIsSentOrLogged listens to everything there is.
func TestNoKeyIsSentOrLogged(t *testing.T) {
	const secret = "sk-very-secret"
	server := startServer(t)
	tap, err := connect(t, server).NATS().SubscribeSync(">")
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
	stop := serveModels(t, connect(t, server), model, bus.ModelServerOptions{Logger: logger})
	req := wholeRequest("hi")
	req.APIKey = secret
	_, last := asked(t, bus.NewModelClient(connect(t, server), bus.ModelClientOptions{}), req)
	wantFailure(t, last, "panicked")
	stop()
	if !strings.Contains(log.String(), "panicked") || strings.Contains(log.String(), secret) {
		t.Errorf("the log says %s", log.String())
	}
	for n := 0; ; n++ {
		m, err := tap.NextMsg(100 * time.Millisecond)
		if err != nil {
			if n < 3 {
				t.Errorf("only %d messages were seen", n)
			}
			return
		}
		if strings.Contains(string(m.Data), secret) {
			t.Errorf("%s carries the key: %s", m.Subject, m.Data)
		}
	}
}

// startSmallServer starts a server whose messages carry 8 KiB at most, half of which are left for headers.
func startSmallServer(t *testing.T) *bus.Server {
	t.Helper()
	s, err := bus.StartServer(bus.ServerOptions{StoreDir: t.TempDir(), MaxPayload: 8 << 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	return s
}

func TestBigRequestAndBigReply(t *testing.T) {
	server := startSmallServer(t)
	model := modelFunc(func(_ context.Context, req schemas.ModelRequest, say func(schemas.StreamEvent) bool) error {
		text := req.Messages[0].(*schemas.UserMessage).Content.JoinText()
		say(start())
		say(done(strings.ToUpper(text)))
		return nil
	})
	serveModels(t, connect(t, server), model, bus.ModelServerOptions{})
	client := bus.NewModelClient(connect(t, server), bus.ModelClientOptions{})
	text := strings.Repeat("all work and no play ", 2000) // 42 kB, in eleven messages
	_, last := asked(t, client, wholeRequest(text))
	if got := last.Content.JoinText(); got != strings.ToUpper(text) {
		t.Errorf("%d bytes came back of %d: %s %.100s", len(got), len(text), last.StopReason, last.ErrorMessage)
	}
}

// TestWhatIsTooBig has limits of 20 kB in the place of 64 MiB: here, there, and for what comes back.
func TestWhatIsTooBig(t *testing.T) {
	const limit = 20_000
	text := strings.Repeat("all work and no play ", 2000)
	for name, c := range map[string]struct {
		client bus.ModelClientOptions
		server bus.ModelServerOptions
		say    string
		want   string
	}{
		"a request":                   {bus.ModelClientOptions{MaxBytes: limit}, bus.ModelServerOptions{}, text, "bytes, and at most 20000 go over the bus"},
		"a request where it is taken": {bus.ModelClientOptions{}, bus.ModelServerOptions{MaxBytes: limit}, text, "a payload of a model call has more than 20000 bytes"},
		"an answer":                   {bus.ModelClientOptions{MaxBytes: limit}, bus.ModelServerOptions{}, "hi", "a payload of a model call has more than 20000 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			server := startSmallServer(t)
			model := modelFunc(func(_ context.Context, _ schemas.ModelRequest, say func(schemas.StreamEvent) bool) error {
				say(done(text))
				return nil
			})
			serveModels(t, connect(t, server), model, c.server)
			_, last := asked(t, bus.NewModelClient(connect(t, server), c.client), wholeRequest(c.say))
			wantFailure(t, last, c.want)
		})
	}
}

func TestNobodyServesModels(t *testing.T) {
	_, last := asked(t, bus.NewModelClient(connect(t, startServer(t)), bus.ModelClientOptions{}), wholeRequest("hi"))
	wantFailure(t, last, "no runner serves models (start one with --serve-models)")
	if last.Provider != bus.ModelProvider || last.Model != "vendor/m" {
		t.Errorf("the reply is by %s/%s", last.Provider, last.Model)
	}
}

func TestModelsThatBreakTheirContract(t *testing.T) {
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
		"a panic": {func(context.Context, schemas.ModelRequest, func(schemas.StreamEvent) bool) error { panic("!") }, "vendor/m panicked"},
	} {
		t.Run(name, func(t *testing.T) {
			server := startServer(t)
			serveModels(t, connect(t, server), c.model, bus.ModelServerOptions{})
			_, last := asked(t, bus.NewModelClient(connect(t, server), bus.ModelClientOptions{}), wholeRequest("hi"))
			wantFailure(t, last, c.want)
		})
	}
}

func TestFullServersRefuse(t *testing.T) {
	server := startServer(t)
	entered, leave := make(chan struct{}, 2), make(chan struct{})
	model := modelFunc(func(_ context.Context, _ schemas.ModelRequest, say func(schemas.StreamEvent) bool) error {
		entered <- struct{}{}
		<-leave
		say(done("ok"))
		return nil
	})
	serveModels(t, connect(t, server), model, bus.ModelServerOptions{Concurrency: 1})
	client := bus.NewModelClient(connect(t, server), bus.ModelClientOptions{})
	first := make(chan *schemas.AssistantMessage, 1)
	go func() {
		_, last := asked(t, client, wholeRequest("hi"))
		first <- last
	}()
	<-entered
	_, last := asked(t, client, wholeRequest("me too"))
	wantFailure(t, last, "too many requests")
	close(leave)
	if m := <-first; m.StopReason != schemas.StopStop {
		t.Errorf("the first call ends with %s %q", m.StopReason, m.ErrorMessage)
	}
}
