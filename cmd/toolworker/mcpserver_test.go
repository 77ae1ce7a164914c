package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/mcp"
	"github.com/loopbus/loopbus/tools/worker"
)

// offered are tools of all kinds.
func offered(g *gate) []tools.Tool {
	picture := newTool("picture", schemas.EffectReadOnly, func(context.Context, tools.Call) (schemas.ToolResult, error) {
		return schemas.ToolResult{Content: schemas.Contents{schemas.Text{Text: "see"},
			schemas.Image{Data: "cG5n", MimeType: "image/png"}},
			Details: json.RawMessage(`{"n":1}`)}, nil
	})
	add := newTool("add", "", echo)
	add.Label, add.Description = "Add up", "adds"
	add.Parameters = json.RawMessage(`{"type":"object","properties":{"a":{"type":"number"}},"required":["a"]}`)
	add.ArgumentRewrites = []schemas.ArgumentRewrite{schemas.RenameArgument("a", "x")}
	secret := newTool("secret", "", echo)
	secret.Scopes = []string{"vault"}
	steps := newTool("steps", "", func(_ context.Context, call tools.Call) (schemas.ToolResult, error) {
		call.Update(schemas.TextResult("one"))
		return schemas.TextResult("done"), nil
	})
	interrupt := newTool(schemas.ToolAgentInterrupt, "", echo) // acts on a session, which an MCP client has not
	return []tools.Tool{add, interrupt, picture, secret, steps, newTool("gate", "", g.execute),
		newTool("fails", "", fails)}
}

func fails(context.Context, tools.Call) (schemas.ToolResult, error) {
	return schemas.ToolResult{}, io.ErrUnexpectedEOF
}

// eachWay runs a test with a client over standard input and output of a process, and with one over HTTP.
func eachWay(t *testing.T, test func(t *testing.T, r *rig, g *gate, c *client)) {
	t.Run("process", func(t *testing.T) {
		t.Parallel()
		r, g := newRig(t), newGate()
		r.serve(4, worker.Options{Tools: offered(g)})
		cmd := exec.Command(self(t), asToolworker, "--mcp", "--nats", r.server.ClientURL())
		cmd.Stderr = os.Stderr
		test(t, r, g, connectMCP(t, &sdk.CommandTransport{Command: cmd}))
	})
	t.Run("HTTP", func(t *testing.T) {
		t.Parallel()
		r, g := newRig(t), newGate()
		r.serve(4, worker.Options{Tools: offered(g)})
		url, _ := r.serveMCP()
		test(t, r, g, connectMCP(t, &sdk.StreamableClientTransport{Endpoint: url}))
	})
}

func TestMCPServerOffersWhatIsAnnounced(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, r *rig, _ *gate, c *client) {
		if d := cmp.Diff([]string{"add", "fails", "gate", "picture", "steps"}, c.names()); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		list, err := c.ListTools(soon(t), nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, tool := range list.Tools {
			if tool.Name == "add" && (tool.Title != "Add up" || tool.Description != "adds" || tool.Annotations.ReadOnlyHint) {
				t.Errorf("%+v", tool)
			}
			if tool.Name == "picture" && !tool.Annotations.ReadOnlyHint {
				t.Error("picture is not read-only")
			}
		}
		w := r.serve(1, worker.Options{ID: "w2", Tools: []tools.Tool{newTool("late", "", echo)}})
		bustest.Within(t, c.changed)
		bustest.Eventually(t, "the new tool is offered", func() bool { return slices.Contains(c.names(), "late") })
		c.wantText("late", `{"v":1}`, `{"v":1}`, false)
		if err := w.stop(); err != nil {
			t.Error(err)
		}
		bustest.Eventually(t, "it is offered no more", func() bool { return !slices.Contains(c.names(), "late") })
	})
}

func TestMCPServerAnswers(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, r *rig, _ *gate, c *client) {
		c.wantText("add", `{"a":12345678901234567}`, `{"a":12345678901234567}`, false)
		c.wantText("add", `{"x":1}`, `{"a":1}`, false)
		c.wantText("fails", `{}`, "unexpected EOF", true)
		if got, err := c.call(soon(t), "add", `{}`); err != nil || !got.IsError ||
			!strings.Contains(saidText(got), "Validation failed") {
			t.Errorf("wrong arguments: %v, %+v", err, got)
		}
		if _, err := c.call(soon(t), "secret", `{}`); err == nil || !strings.Contains(err.Error(), "unknown tool") {
			t.Errorf("a tool that needs a scope: %v", err)
		}
		got, err := c.call(soon(t), "picture", `{}`)
		if err != nil || len(got.Content) != 2 {
			t.Fatalf("%v, %+v", err, got)
		}
		if image, ok := got.Content[1].(*sdk.ImageContent); !ok || string(image.Data) != "png" ||
			image.MIMEType != "image/png" {
			t.Errorf("%+v", got.Content[1])
		}
		if details, err := json.Marshal(got.Meta["loopbus.dev/details"]); err != nil || string(details) != `{"n":1}` {
			t.Errorf("details %s, %v", details, err)
		}
		c.wantText("steps", `{}`, "done", false)
		if p := bustest.Within(t, c.progress); p.ProgressToken != "p-steps" || p.Message != "one" || p.Progress != 1 {
			t.Errorf("progress %+v", p)
		}
		r.settled()
		if n := r.stored(schemas.StreamCommands); n != 0 {
			t.Errorf("%d messages in inboxes", n)
		}
	})
}

func TestMCPServerCancels(t *testing.T) {
	t.Parallel()
	eachWay(t, func(t *testing.T, r *rig, g *gate, c *client) {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { _, err := c.call(ctx, "gate", `{}`); ended <- err }()
		bustest.Within(t, g.begun)
		cancel()
		if err := bustest.Within(t, ended); err == nil {
			t.Error("a cancelled call has a result")
		}
		r.settled() // its worker has the cancellation
		c.wantText("add", `{"a":1}`, `{"a":1}`, false)
	})
}

// When the client goes, so does what it asked for, and over standard input and output the process.
func TestMCPServerWhoseClientGoes(t *testing.T) {
	t.Parallel()
	begin := func(c *client, g *gate) {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() { defer close(ended); _, _ = c.call(ctx, "gate", `{}`) }()
		c.t.Cleanup(func() { cancel(); <-ended })
		bustest.Within(c.t, g.begun)
	}
	t.Run("process", func(t *testing.T) {
		t.Parallel()
		r, g := newRig(t), newGate()
		r.serve(4, worker.Options{Tools: offered(g)})
		cmd := exec.Command(self(t), asToolworker, "--mcp", "--nats", r.server.ClientURL())
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		begin(connectMCP(t, &sdk.IOTransport{Reader: out, Writer: in}), g)
		if err := in.Close(); err != nil {
			t.Fatal(err)
		}
		exited := make(chan error, 1)
		go func() { exited <- cmd.Wait() }()
		r.settled()
		if err := bustest.Within(t, exited); err != nil {
			t.Errorf("the process: %v", err)
		}
	})
	t.Run("HTTP", func(t *testing.T) {
		t.Parallel()
		r, g := newRig(t), newGate()
		r.serve(4, worker.Options{Tools: offered(g)})
		url, _ := r.serveMCP()
		wire := &cuttable{}
		begin(connectMCP(t, &sdk.StreamableClientTransport{Endpoint: url, MaxRetries: -1, HTTPClient: wire.client()}), g)
		wire.cut()
		r.settled()
	})
}

// cuttable makes connections that can be cut all at once, and none afterwards.
type cuttable struct {
	mu    sync.Mutex
	conns []net.Conn
	isCut bool
}

func (c *cuttable) client() *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn,
		error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, addr)
		c.mu.Lock()
		defer c.mu.Unlock()
		if err == nil && c.isCut {
			_ = conn.Close()
			return nil, net.ErrClosed
		}
		c.conns = append(c.conns, conn)
		return conn, err
	}}}
}

func (c *cuttable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isCut = true
	for _, conn := range c.conns {
		if conn != nil {
			_ = conn.Close()
		}
	}
}

func TestMCPServerGrantsScopesAndNamesTools(t *testing.T) {
	t.Parallel()
	r, g := newRig(t), newGate()
	r.serve(1, worker.Options{Tools: offered(g)})
	url, _ := r.serveMCP("--mcp-scopes", "vault", "--mcp-tools", "secret,add")
	c := connectMCP(t, &sdk.StreamableClientTransport{Endpoint: url})
	if d := cmp.Diff([]string{"add", "secret"}, c.names()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	c.wantText("secret", `{}`, `{}`, false)
}

func TestMCPServerOverHTTPKeepsStrangersOut(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("open sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	url, _ := r.serveMCP("--mcp-token-file", file)
	open, _ := r.serveMCP()
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",` +
		`"capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	for name, c := range map[string]struct {
		url, header, value string
		want               int
	}{
		"no token":                     {url, "Accept", "application/json, text/event-stream", http.StatusUnauthorized},
		"wrong token":                  {url, "Authorization", "Bearer open", http.StatusUnauthorized},
		"no bearer":                    {url, "Authorization", "open sesame", http.StatusUnauthorized},
		"token":                        {url, "Authorization", "Bearer open sesame", http.StatusOK},
		"no token asked":               {open, "Accept", "application/json, text/event-stream", http.StatusOK},
		"other origin":                 {open, "Origin", "https://evil.example", http.StatusForbidden},
		"other host":                   {open, "Host", "evil.example", http.StatusForbidden},
		"a name that begins like ours": {open, "Host", "127.0.0.1.evil.example", http.StatusForbidden},
		"a page that begins like ours": {open, "Origin", "http://127.0.0.1.evil.example", http.StatusForbidden},
		"a page that has no origin":    {open, "Origin", "null", http.StatusForbidden},
		"a page of another port":       {open, "Sec-Fetch-Site", "same-site", http.StatusForbidden},
	} {
		req, err := http.NewRequestWithContext(soon(t), http.MethodPost, c.url, strings.NewReader(hello))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Accept", "application/json, text/event-stream")
		req.Header.Set(c.header, c.value)
		if c.header == "Host" {
			req.Host = c.value
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != c.want {
			t.Errorf("%s: %s", name, resp.Status)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

// Requests that are never sent to the end hold a bounded part of the memory, for a bounded time, and only with the
// token.
func TestMCPServerOverHTTPIsNotFilled(t *testing.T) {
	t.Parallel()
	var text bustest.Log
	log := slog.New(slog.NewTextHandler(&text, nil))
	gateway := mcp.NewGateway(mcp.GatewayOptions{Logger: log})
	server := httpServer(gateway, "open sesame", log)
	if server.ReadTimeout != 10*time.Second {
		t.Errorf("a request has %v to be sent", server.ReadTimeout)
	}
	server.ReadTimeout = 2 * time.Second // the test waits for it
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- serveHTTP(ctx, gateway, server, "127.0.0.1:0", log) }()
	t.Cleanup(func() {
		if cancel(); bustest.Within(t, served) != nil {
			t.Error("it does not end well")
		}
	})
	host := strings.TrimPrefix(listening(t, &text), "http://")
	half := func(token string, length int) net.Conn {
		conn, err := net.Dial("tcp", host)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_, err = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\n"+
			"Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"+
			"Content-Length: %d\r\n\r\n[", host, token, length)
		if err != nil {
			t.Fatal(err)
		}
		return conn
	}
	status := func(conn net.Conn) int {
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	const whole = 4 << 20
	for range 20 {
		if got := status(half("open", whole)); got != http.StatusUnauthorized {
			t.Errorf("without the token: %d", got)
		}
	}
	if got := status(half("open sesame", whole+1)); got != http.StatusRequestEntityTooLarge {
		t.Errorf("a request that is too large: %d", got)
	}
	const held = 64 << 20 / whole // at once
	var conns []net.Conn
	for range held + 1 {
		conns = append(conns, half("open sesame", whole))
	}
	got := map[int]int{}
	for _, conn := range conns {
		got[status(conn)]++
	}
	want := map[int]int{
		http.StatusServiceUnavailable: 1,    // there is no room for
		http.StatusBadRequest:         held, // is not sent to the end
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("requests of 4 MiB (-want +got):\n%s", d)
	}
	if got := status(half("open sesame", 1)); got != http.StatusBadRequest {
		t.Errorf("when there is room: %d", got)
	}
}

func TestMCPOptions(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	none := func(string) string { return "" }
	for want, args := range map[string][]string{
		"--mcp-http: 0.0.0.0:80 is not a loopback address": {"--mcp-http", "0.0.0.0:80"},
		"--mcp-http: :80 is not a loopback address":        {"--mcp-http", ":80"},
		"--mcp-http: address x":                            {"--mcp-http", "x"},
		"only one of them":                                 {"--mcp", "--mcp-http", "localhost:0"},
		"--mcp-token-file: ":                               {"--mcp-token-file", "/no/such"},
		"is empty":                                         {"--mcp-token-file", empty},
		"--mcp-server: server \"x\"":                       {"--mcp-server", "x=run ${NO_SUCH}"},
		"MCP server \"x\" is given twice":                  {"--mcp-server", "x=run", "--mcp-server", "x=go"},
		"--mcp-config: /no/such":                           {"--mcp-config", "/no/such"},
		"tool \"ba*\" is not 1 to 64":                      {"--mcp", "--mcp-tools", "ls,ba*"},
		"tool \"*\" is not 1 to 64":                        {"--mcp", "--mcp-tools", "*"},
	} {
		if _, err := parse(args, none); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %s", args, err, want)
		}
	}
	for _, args := range [][]string{{"--mcp-http", "[::1]:0"}, {"--mcp-http", "localhost:0"},
		{"--mcp-http", ":0", "--mcp-token", "x"}, {"--mcp"}} {
		o, err := parse(args, none)
		if err != nil || len(o.Tools.Tools) != 0 {
			t.Errorf("%v: %v, tools %v", args, err, o)
		}
	}
	if o, err := parse([]string{"--mcp", "--tools", "ls"}, none); err != nil || len(o.Tools.Tools) != 1 {
		t.Errorf("%v, %+v", err, o)
	}
}
