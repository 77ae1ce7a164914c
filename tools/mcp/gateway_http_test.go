package mcp_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools/mcp"
)

// hello is the first request of a client.
const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",` +
	`"capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`

// gatewayOverHTTP serves a tool that takes longer than a request may take to be sent; 0 is as long as it likes.
func gatewayOverHTTP(t *testing.T, sending time.Duration) *httptest.Server {
	t.Helper()
	g := mcp.NewGateway(mcp.GatewayOptions{Session: func(id string) string { return "mcp-" + id },
		Call: func(ctx context.Context, _ string, _ schemas.ToolDefinition, _ json.RawMessage, _ func(schemas.ToolResult),
		) (schemas.ToolResult, bool, error) {
			select {
			case <-ctx.Done():
				return schemas.ToolResult{}, false, ctx.Err()
			case <-time.After(2 * sending):
				return schemas.TextResult("done"), false, nil
			}
		}})
	g.SetTools([]schemas.ToolDefinition{{Name: "slow"}})
	s := httptest.NewUnstartedServer(g.Handler(""))
	s.Config.ReadTimeout, s.Config.IdleTimeout = sending, time.Minute // a connection may rest between two
	s.Start()
	t.Cleanup(func() { g.Close(); s.CloseClientConnections(); s.Close() })
	return s
}

// What bounds the time of a request does not bound that of its answer, nor of a stream.
func TestAnswersOutlastTheTimeOfARequest(t *testing.T) {
	t.Parallel()
	s := gatewayOverHTTP(t, 500*time.Millisecond) // a busy machine may take long to send one
	client := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil)
	session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: s.URL, MaxRetries: -1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	for range 2 {
		got, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "slow"})
		if err != nil || got.IsError {
			t.Fatalf("%+v, %v", got, err)
		}
	}
}

// Over HTTP, what a result has as JSON counts among the answers that are not read.
func TestResultsOverHTTPNeedRoom(t *testing.T) {
	t.Parallel()
	g := mcp.NewGateway(mcp.GatewayOptions{Session: func(id string) string { return "mcp-" + id },
		Call: func(context.Context, string, schemas.ToolDefinition, json.RawMessage, func(schemas.ToolResult),
		) (schemas.ToolResult, bool, error) {
			return schemas.TextResult(strings.Repeat("\x01", 12<<20)), false, nil
		}})
	g.SetTools([]schemas.ToolDefinition{{Name: "long"}})
	s := httptest.NewServer(g.Handler(""))
	t.Cleanup(func() { g.Close(); s.CloseClientConnections(); s.Close() })
	client := sdk.NewClient(&sdk.Implementation{Name: "test"}, nil)
	session, err := client.Connect(t.Context(), &sdk.StreamableClientTransport{Endpoint: s.URL, MaxRetries: -1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	got, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "long"})
	if err != nil || !got.IsError || !strings.Contains(got.Content[0].(*sdk.TextContent).Text, "no room") {
		t.Errorf("%v, %v", got, err)
	}
}

// Clients that begin session after session are refused in the end, and those that have one are not.
func TestSessionsOverHTTPAreBounded(t *testing.T) {
	t.Parallel()
	s := gatewayOverHTTP(t, 0)
	post := func(body, session string) *http.Response {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if session != "" {
			r.Header.Set("Mcp-Session-Id", session)
		}
		resp, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp
	}
	const most = 1024
	session := ""
	for n := range most {
		resp := post(hello, "")
		if session = resp.Header.Get("Mcp-Session-Id"); resp.StatusCode != http.StatusOK || session == "" {
			t.Fatalf("session %d: %s", n, resp.Status)
		}
	}
	if resp := post(hello, ""); resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("one more: %s", resp.Status)
	}
	if resp := post(`{"jsonrpc":"2.0","id":2,"method":"ping"}`, session); resp.StatusCode != http.StatusOK {
		t.Errorf("who has one: %s", resp.Status)
	}
}
