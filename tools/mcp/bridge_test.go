package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/mcp"
)

const patience = 90 * time.Second

// A rig is a bridge at work, and what it has offered last.
type rig struct {
	t   *testing.T
	dir string // where the server leaves traces
	log *text

	mu    sync.Mutex
	tools map[string]tools.Tool
	stop  func()
}

type text struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *text) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *text) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// start runs a bridge until the test ends and waits for the first list of tools, unless ready is not wanted.
func start(t *testing.T, dir string, config mcp.ServerConfig, ready bool, change ...func(*mcp.BridgeOptions)) *rig {
	t.Helper()
	r := &rig{t: t, dir: dir, log: new(text)}
	o := mcp.BridgeOptions{
		Server: config, Prefix: "zoo", Environ: append(os.Environ(), "MODEL_API_KEY=hidden-key"),
		FirstBackoff: 10 * time.Millisecond,
		Offer:        r.offer, Logger: slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, f := range change {
		f(&o)
	}
	bridge, err := mcp.NewBridge(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); bridge.Run(ctx) }()
	r.stop = func() { cancel(); <-done }
	t.Cleanup(r.stop)
	if ready {
		r.eventually("the tools are known", func() bool { return r.tool("zoo_echo").Execute != nil })
	}
	return r
}

// process is the test binary as a server.
func process(t *testing.T) (dir string, c mcp.ServerConfig) {
	t.Helper()
	dir = t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return dir, parse(t, `{"command":"`+self+`","env":{"`+serverEnv+`":"`+dir+`","SECRET_WORD":"${WORD}"}}`)
}

// parse reads one server's configuration.
func parse(t *testing.T, server string) mcp.ServerConfig {
	t.Helper()
	list, err := mcp.ParseConfig([]byte(`{"mcpServers":{"zoo":`+server+`}}`), func(name string) string {
		return map[string]string{"WORD": "xyzzy-plugh"}[name]
	})
	if err != nil {
		t.Fatal(err)
	}
	return list[0]
}

// overHTTP is a server over streamable HTTP, and what was asked for.
func overHTTP(t *testing.T) (dir string, c mcp.ServerConfig, s *httptest.Server) {
	t.Helper()
	dir = t.TempDir()
	server := newServer(dir)
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil)
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer xyzzy-plugh" {
			http.Error(w, "who are you", http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		for session := range server.Sessions() {
			_ = session.Close()
		}
	})
	return dir, parse(t, `{"url":"`+s.URL+`","headers":{"Authorization":"Bearer ${WORD}"}}`), s
}

func (r *rig) offer(list []tools.Tool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tools = map[string]tools.Tool{}
	for _, tool := range list {
		r.tools[tool.Name] = tool
	}
}

func (r *rig) tool(name string) tools.Tool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tools[name]
}

func (r *rig) names() (list []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name := range r.tools {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

func (r *rig) call(ctx context.Context, name, args string) (schemas.ToolResult, bool) {
	r.t.Helper()
	tool := r.tool("zoo_" + name)
	if tool.Execute == nil {
		r.t.Fatalf("no tool %s, there are %v", name, r.names())
	}
	return tool.Run(ctx, callOf(args), nil)
}

func callOf(args string) tools.Call {
	return tools.Call{Arguments: json.RawMessage(args), IdempotencyKey: "s1/c7"}
}

func (r *rig) want(name, args, text string, isError bool) {
	r.t.Helper()
	got, failed := r.call(r.t.Context(), name, args)
	if got.Content.JoinText() != text || failed != isError {
		r.t.Errorf("%s: error %v, %q, want %v, %q", name, failed, got.Content.JoinText(), isError, text)
	}
}

func (r *rig) eventually(what string, ok func() bool) {
	r.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	end := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-end:
			r.t.Fatalf("never happened: %s\n%s", what, r.log)
		}
	}
}

func (r *rig) traced(name string) {
	r.t.Helper()
	r.eventually("the server is "+name, func() bool { return exists(filepath.Join(r.dir, name)) })
}

// both runs a test over standard input and output and over HTTP.
func both(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Run("process", func(t *testing.T) {
		t.Parallel()
		dir, c := process(t)
		test(t, start(t, dir, c, true))
	})
	t.Run("HTTP", func(t *testing.T) {
		t.Parallel()
		dir, c, _ := overHTTP(t)
		test(t, start(t, dir, c, true))
	})
}

func TestBridgeDefinesTools(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, r *rig) {
		if d := cmp.Diff([]string{"zoo_die", "zoo_echo", "zoo_environ", "zoo_fail", "zoo_grow", "zoo_put", "zoo_refuse",
			"zoo_steps",
			"zoo_wait", "zoo_zoo"}, r.names()); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		yes, no := true, false
		got := r.tool("zoo_echo").ToolDefinition
		want := schemas.ToolDefinition{Name: "zoo_echo", Label: "Echo it", Description: "does echo",
			Effect: schemas.EffectReadOnly,
			Parameters: json.RawMessage(`{"additionalProperties":true,"properties":{"text":{"type":"string"}},` +
				`"type":"object"}`),
			Annotations: &schemas.ToolAnnotations{Title: "Echo it", ReadOnlyHint: &yes, IdempotentHint: &no},
			Revision:    got.Revision}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		for name, effect := range map[string]schemas.Effect{"zoo_put": schemas.EffectIdempotent,
			"zoo_fail": schemas.EffectUnsafe} {
			if got := r.tool(name).Effect; got != effect {
				t.Errorf("%s is %s", name, got)
			}
		}
	})
}

func TestBridgeResults(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, r *rig) {
		got, _ := r.call(t.Context(), "echo", `{"text":"hi","big":12345678901234567890}`)
		if got.Content.JoinText() != `{"text":"hi","big":12345678901234567890}` || string(got.Details) != `{"key":"s1/c7"}` {
			t.Errorf("%q, details %s", got.Content.JoinText(), got.Details)
		}
		r.want("put", `{}`, `{"n":1}`, false)
		r.want("fail", `{}`, "no such animal", true)
		got, _ = r.call(t.Context(), "zoo", `{}`)
		want := schemas.Contents{
			schemas.Text{Text: "a"}, schemas.Image{Data: dot, MimeType: "image/png"},
			schemas.Text{Text: "[Image, image/tiff, 4 bytes: it cannot be shown.]"},
			schemas.Text{Text: "[Audio, audio/wav, 3 bytes: it cannot be shown.]"},
			schemas.Text{Text: "[Link to the resource x: file:///x, text/plain, 7 bytes] An x."},
			schemas.Text{Text: "[Resource file:///y, text/plain]\nwhy"}, schemas.Image{Data: dot, MimeType: "image/png"},
			schemas.Text{Text: "[Resource file:///b, of no type, 3 bytes: it cannot be shown.]"},
		}
		if d := cmp.Diff(want, got.Content); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	})
}

func TestBridgeProgress(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, r *rig) {
		var got []string
		update := func(u schemas.ToolResult) {
			if got = append(got, u.Content.JoinText()+string(u.Details)); len(got) == 2 {
				trace(r.dir, "seen")
			}
		}
		result, isError := r.tool("zoo_steps").Run(t.Context(), tools.Call{}, update)
		if isError || result.Content.JoinText() != "done" {
			t.Errorf("%v %q", isError, result.Content.JoinText())
		}
		want := []string{`one (1.5 of 3){"progress":1.5,"total":3,"message":"one"}`, `(2.5 of 3){"progress":2.5,"total":3}`}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	})
}

func TestBridgeCancels(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, r *rig) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan string, 1)
		go func() {
			result, _ := r.call(ctx, "wait", `{}`)
			done <- result.Content.JoinText()
		}()
		r.traced("waiting")
		cancel()
		select {
		case got := <-done:
			if got != "Operation aborted" {
				t.Errorf("%q", got)
			}
		case <-time.After(patience):
			t.Fatal("the call does not end")
		}
		r.traced("cancelled")
		r.want("echo", `{"text":"alive"}`, `{"text":"alive"}`, false)
	})
}

func TestBridgeFollowsTheList(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, r *rig) {
		r.want("grow", `{}`, "ok", false)
		r.eventually("the list changes", func() bool {
			return slices.Contains(r.names(), "zoo_grown") && !slices.Contains(r.names(), "zoo_put")
		})
		r.want("grown", `{}`, "big", false)
	})
}

// A process that dies is started again. The call that killed it is not made again.
func TestBridgeRestartsAProcess(t *testing.T) {
	t.Parallel()
	dir, c := process(t)
	r := start(t, dir, c, true)
	for range 2 {
		got, isError := r.call(t.Context(), "die", `{}`)
		if !isError || !strings.HasPrefix(got.Content.JoinText(),
			"The outcome of this call is unknown: the connection to the MCP server zoo was lost") {
			t.Errorf("%v %q", isError, got.Content.JoinText())
		}
		r.eventually("the server is back", func() bool {
			got, isError := r.call(t.Context(), "echo", `{"text":"hi"}`)
			text := got.Content.JoinText()
			if isError && !strings.Contains(text, "is not there") && !strings.Contains(text, "was lost") {
				t.Fatalf("meanwhile: %q", text)
			}
			return !isError
		})
	}
}

func TestBridgeReconnectsOverHTTP(t *testing.T) {
	t.Parallel()
	dir, c, server := overHTTP(t)
	r := start(t, dir, c, true)
	handler := server.Config.Handler
	addr := server.Listener.Addr().String()
	server.CloseClientConnections()
	server.Close()
	got, isError := r.call(t.Context(), "echo", `{}`)
	if !isError || !strings.Contains(got.Content.JoinText(), "MCP server zoo") {
		t.Errorf("%v %q", isError, got.Content.JoinText())
	}
	r.eventually("calls say that the server is away", func() bool {
		got, _ := r.call(t.Context(), "echo", `{}`)
		return strings.HasPrefix(got.Content.JoinText(), "The MCP server zoo is not there: ")
	})
	again := httptest.NewUnstartedServer(handler)
	_ = again.Listener.Close()
	again.Listener = listen(t, addr)
	again.Start()
	t.Cleanup(func() { again.CloseClientConnections(); again.Close() })
	r.eventually("the server is back", func() bool {
		_, isError := r.call(t.Context(), "echo", `{}`)
		return !isError
	})
}

// A server that does not start is retried, and the log says what it said, but no secret.
func TestBridgeServerThatDoesNotStart(t *testing.T) {
	t.Parallel()
	dir, c := process(t)
	c.Env["FAIL_TO_START"] = "1"
	r := start(t, dir, c, false)
	r.eventually("it is tried twice", func() bool {
		return strings.Count(r.log.String(),
			"MCP server lost, trying again") >= 2
	})
	r.stop()
	if log := r.log.String(); !strings.Contains(log, "it said last: server says ***") || strings.Contains(log, "xyzzy") {
		t.Errorf("log:\n%s", log)
	}
}

func TestBridgeTellsAProcessNoMoreThanItMust(t *testing.T) {
	t.Parallel()
	dir, c := process(t)
	r := start(t, dir, c, true)
	got, _ := r.call(t.Context(), "environ", `{}`)
	env := got.Content.JoinText()
	if strings.Contains(env, "hidden-key") || !strings.Contains(env, "SECRET_WORD=xyzzy-plugh") ||
		!strings.Contains(env, "PATH=") {
		t.Errorf("environment:\n%s", env)
	}
}

func TestBridgeKeepsSecrets(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, r *rig) {
		got, isError := r.call(t.Context(), "refuse", `{}`)
		if text := got.Content.JoinText(); !isError ||
			!strings.HasPrefix(text, "The MCP server zoo refused the call: not today") || strings.Contains(text, "xyzzy") {
			t.Errorf("%v %q", isError, text)
		}
		r.stop()
		if strings.Contains(r.log.String(), "xyzzy") {
			t.Errorf("log:\n%s", r.log)
		}
	})
}
