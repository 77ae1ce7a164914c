package mcp_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/loopbus/loopbus/bus/bustest/suite"
)

// serverEnv makes the test binary an MCP server over standard input and output; its value is a directory for the traces
// it leaves.
const serverEnv = "LOOPBUS_TEST_MCP_SERVER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(serverEnv); dir != "" {
		fmt.Fprintln(os.Stderr, "server says", os.Getenv("SECRET_WORD"))
		if os.Getenv("FAIL_TO_START") != "" {
			os.Exit(3)
		}
		if how := os.Getenv(hostileEnv); how != "" {
			hostile(how)
			os.Exit(0)
		}
		if err := newServer(dir).Run(context.Background(), &sdk.StdioTransport{}); err != nil &&
			!errors.Is(err, sdk.ErrConnectionClosed) {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(0)
	}
	suite.Parallel(2 * suite.Usual) // they wait for each other's time limits
	goleak.VerifyTestMain(m)
}

// trace says to the test that something has happened in the server.
func trace(dir, name string) { _ = os.WriteFile(dir+"/"+name, nil, 0o600) }

// dot is a PNG of one pixel, in base64.
const dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAADklEQVR4nGJiAAQAAP//AAYAA/rQWa4AAAAASUVORK5CYII="

// newServer is a server by the SDK, with tools of all kinds.
func newServer(dir string) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "zoo", Version: "1"}, nil)
	object := json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"additionalProperties":true}`)
	add := func(name string, annotations *sdk.ToolAnnotations,
		do func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error)) {
		s.AddTool(&sdk.Tool{Name: name, Description: "does " + name, InputSchema: object, Annotations: annotations}, do)
	}
	said := func(text string) *sdk.CallToolResult {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}
	}
	add("echo", &sdk.ToolAnnotations{ReadOnlyHint: true, Title: "Echo it"},
		func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			result := said(string(r.Params.Arguments))
			result.StructuredContent = map[string]any{"key": r.Params.Meta["loopbus.dev/idempotencyKey"]}
			return result, nil
		})
	add("put", &sdk.ToolAnnotations{IdempotentHint: true},
		func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return &sdk.CallToolResult{StructuredContent: map[string]any{"n": 1}}, nil
		})
	add("fail", nil, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		result := said("no such animal")
		result.IsError = true
		return result, nil
	})
	add("refuse", nil, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return nil, errors.New("not today, " + os.Getenv("SECRET_WORD"))
	})
	add("zoo", nil, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		size := int64(7)
		image, err := base64.StdEncoding.DecodeString(dot)
		if err != nil {
			return nil, err
		}
		return &sdk.CallToolResult{Content: []sdk.Content{
			&sdk.TextContent{Text: "a"}, &sdk.ImageContent{Data: image, MIMEType: "image/png"},
			&sdk.ImageContent{Data: []byte("tiff"), MIMEType: "image/tiff"},
			&sdk.AudioContent{Data: []byte("wav"), MIMEType: "audio/wav"},
			&sdk.ResourceLink{URI: "file:///x", Name: "x", MIMEType: "text/plain", Size: &size, Description: "An x."},
			&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "file:///y", MIMEType: "text/plain", Text: "why"}},
			&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "file:///z", MIMEType: "image/png", Blob: image}},
			&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "file:///b", Blob: []byte("bin")}},
		}}, nil
	})
	add("steps", nil, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		for i, message := range []string{"one", ""} {
			err := r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(),
				Progress: float64(i) + 1.5, Total: 3, Message: message})
			if err != nil {
				return nil, err
			}
		}
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for !exists(dir + "/seen") { // the test has seen the progress
			select {
			case <-tick.C:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		return said("done"), nil
	})
	add("wait", nil, func(ctx context.Context, _ *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		trace(dir, "waiting")
		<-ctx.Done()
		trace(dir, "cancelled")
		return nil, ctx.Err()
	})
	add("die", nil, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		os.Exit(1)
		return nil,
			nil
	})
	add("environ", nil, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		env := slices.Sorted(slices.Values(os.Environ()))
		return said(strings.Join(env, "\n")), nil
	})
	add("grow", nil, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		add("grown", nil, func(context.Context, *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			return said("big"),
				nil
		})
		s.RemoveTools("put")
		return said("ok"), nil
	})
	return s
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
