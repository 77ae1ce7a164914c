package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/cmd/internal/signals"
)

// What the test binary can be instead, as its first argument.
const (
	asToolworker = "as-toolworker"
	asMCPServer  = "as-mcp-server" // and the directory where it leaves traces
)

// actAsProcess is a process of its own for tests that need one, and does not return then.
func actAsProcess() {
	var err error
	switch {
	case len(os.Args) > 1 && os.Args[1] == asToolworker:
		err = run(signals.Context(), os.Args[2:], os.Getenv, os.Environ(), os.Stdin, os.Stdout, os.Stderr)
	case len(os.Args) > 2 && os.Args[1] == asMCPServer:
		err = zoo(os.Args[2]).Run(context.Background(), &sdk.StdioTransport{})
	default:
		return
	}
	if err != nil && !errors.Is(err, sdk.ErrConnectionClosed) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// dot is a PNG of one pixel, in base64.
const dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAADklEQVR4nGJiAAQAAP//AAYAA/rQWa4AAAAASUVORK5CYII="

// noise is a PNG that is too large for a message of the bus.
func noise() ([]byte, error) {
	random := rand.New(rand.NewPCG(1, 2))
	img := image.NewNRGBA(image.Rect(0, 0, 340, 340))
	for i := range img.Pix {
		img.Pix[i] = byte(random.Uint32())
	}
	var b bytes.Buffer
	err := png.Encode(&b, img)
	return b.Bytes(), err
}

// zoo is an MCP server by the SDK.
func zoo(dir string) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "zoo"}, nil)
	said := func(text string) (*sdk.CallToolResult, error) {
		image, err := base64.StdEncoding.DecodeString(dot)
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text},
			&sdk.ImageContent{Data: image, MIMEType: "image/png"}}}, err
	}
	add := func(name string, do sdk.ToolHandler) {
		s.AddTool(&sdk.Tool{Name: name, InputSchema: json.RawMessage(`{"type":"object"}`),
			Annotations: &sdk.ToolAnnotations{ReadOnlyHint: name == "echo"}}, do)
	}
	add("echo", func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return said(string(r.Params.Arguments))
	})
	add("poster", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		image, err := noise()
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.ImageContent{Data: image, MIMEType: "image/png"}}}, err
	})
	add("wait", func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		p := &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(), Progress: 2, Total: 4,
			Message: "half"}
		if err := r.Session.NotifyProgress(ctx, p); err != nil {
			return nil, err
		}
		<-ctx.Done()
		return nil, os.WriteFile(filepath.Join(dir, "cancelled"), nil, 0o600)
	})
	add("grow", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		add("grown", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { return said("big") })
		return said("ok")
	})
	add("hold", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if err := os.WriteFile(filepath.Join(dir, "holding"), nil, 0o600); err != nil {
			return nil, err
		}
		for range time.Tick(10 * time.Millisecond) {
			if _, err := os.Stat(filepath.Join(dir, "release")); err == nil {
				break
			}
		}
		return said("held")
	})
	add("die", func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) { os.Exit(1); return nil, nil })
	return s
}

// start runs the command until the test ends, and returns what ends it before.
func (r *rig) start(log *bustest.Log, args ...string) (stop func() error) {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, append([]string{"--nats", r.server.ClientURL()}, args...), func(string) string { return "" },
			os.Environ(),
			strings.NewReader(""), log, log)
	}()
	var err error
	stopped := false
	stop = func() error {
		if cancel(); !stopped {
			err, stopped = bustest.Within(r.t, ended), true
		}
		return err
	}
	r.t.Cleanup(func() {
		if err := stop(); err != nil {
			r.t.Errorf("%v: %v", args, err)
		}
	})
	return stop
}

// serveMCP runs the command as an MCP server over HTTP and returns its URL.
func (r *rig) serveMCP(args ...string) (url string, stop func() error) {
	r.t.Helper()
	var log bustest.Log
	stop = r.start(&log, append([]string{"--mcp-http", "127.0.0.1:0"}, args...)...)
	return listening(r.t, &log), stop
}

// listening waits until the log says where the MCP server is.
func listening(t *testing.T, log *bustest.Log) (url string) {
	t.Helper()
	bustest.Eventually(t, "the MCP server listens", func() bool {
		_, rest, ok := strings.Cut(log.String(), "url=")
		url, _, _ = strings.Cut(rest, "\n")
		return ok
	})
	return url
}

// A client is an MCP client by the SDK, and what it has received.
type client struct {
	*sdk.ClientSession
	t        *testing.T
	progress chan *sdk.ProgressNotificationParams
	changed  chan struct{}
}

func connectMCP(t *testing.T, transport sdk.Transport) *client {
	t.Helper()
	c := &client{t: t, progress: make(chan *sdk.ProgressNotificationParams, 64), changed: make(chan struct{}, 64)}
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test"}, &sdk.ClientOptions{
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { c.changed <- struct{}{} },
		ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) {
			c.progress <- r.Params
		},
	}).Connect(ctx, transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	c.ClientSession = session
	t.Cleanup(func() { _ = session.Close() })
	return c
}

func (c *client) names() (names []string) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	for tool, err := range c.Tools(ctx, nil) {
		if err != nil {
			c.t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	slices.Sort(names)
	return names
}

// call makes a call that asks for progress.
func (c *client) call(ctx context.Context, name, args string) (*sdk.CallToolResult, error) {
	params := &sdk.CallToolParams{Name: name, Arguments: json.RawMessage(args)}
	params.SetProgressToken("p-" + name)
	ctx, cancel := context.WithTimeout(ctx, 3*deadline)
	defer cancel()
	return c.CallTool(ctx, params)
}

func (c *client) wantText(name, args, want string, isError bool) {
	c.t.Helper()
	got, err := c.call(context.Background(), name, args)
	if err != nil {
		c.t.Fatalf("%s: %v", name, err)
	}
	if text := saidText(got); text != want || got.IsError != isError {
		c.t.Errorf("%s: error %v, %q, want %v, %q", name, got.IsError, text, isError, want)
	}
}

func saidText(r *sdk.CallToolResult) string {
	var b strings.Builder
	for _, c := range r.Content {
		if t, ok := c.(*sdk.TextContent); ok {
			b.WriteString(t.Text)
		}
	}
	return b.String()
}

func (r *rig) exists(path string) {
	r.t.Helper()
	bustest.Eventually(r.t, path+" is there", func() bool { _, err := os.Stat(path); return err == nil })
}

// soon is a context for a step of a test.
func soon(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*deadline)
	t.Cleanup(cancel)
	return ctx
}
