package integration_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/mcp"
)

// mcpServer is an MCP server of the official SDK, over HTTP.
func mcpServer(t *testing.T) string {
	t.Helper()
	server := sdk.NewServer(&sdk.Implementation{Name: "math"}, nil)
	type terms struct {
		A int `json:"a"`
		B int `json:"b"`
	}
	type sum struct {
		Sum int `json:"sum"`
	}
	sdk.AddTool(server, &sdk.Tool{Name: "add", Description: "adds"},
		func(ctx context.Context, r *sdk.CallToolRequest, in terms) (*sdk.CallToolResult, sum, error) {
			err := r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: r.Params.GetProgressToken(),
				Progress: 1, Message: "carrying"})
			return nil, sum{in.A + in.B}, err
		})
	http := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, nil))
	t.Cleanup(func() {
		http.CloseClientConnections()
		http.Close()
		for session := range server.Sessions() {
			_ = session.Close()
		}
	})
	return http.URL
}

// bridged returns the tools of an MCP server. The bridge runs until the test ends.
func bridged(t *testing.T, url string) []tools.Tool {
	t.Helper()
	offered := make(chan []tools.Tool, 1)
	bridge, err := mcp.NewBridge(mcp.BridgeOptions{
		Server: mcp.ServerConfig{Name: "math", URL: url}, Prefix: "math", Offer: func(list []tools.Tool) { offered <- list },
	})
	if err != nil {
		t.Fatal(err)
	}
	system.Serve(t, func(ctx context.Context) error { bridge.Run(ctx); return nil })
	select {
	case list := <-offered:
		return list
	case <-t.Context().Done():
		t.Fatal("the server's tools were not announced")
		return nil
	}
}

// A model calls a tool of an MCP server, and the run's log has the result.
func TestAModelCallsAToolOfAnMCPServer(t *testing.T) {
	t.Parallel()
	model := scripted.New(scripted.Calls("", schemas.ToolCall{ID: "t1", Name: "math_add",
		Arguments: json.RawMessage(`{"a":19,"b":23}`)}),
		scripted.Calls("", schemas.ToolCall{ID: "t2", Name: "math_add", Arguments: json.RawMessage(`{"a":"many"}`)}),
		scripted.Text("42"))
	s := system.StartAlone(t, system.Options{Model: model, Tools: bridged(t, mcpServer(t))})
	s.Run(t, "s1")
	var log []schemas.Event
	system.Eventually(t, "the run is stored", func() bool {
		log = s.LogOf(t, "s1")
		return slices.ContainsFunc(log, system.Ends(1))
	})
	var got []string
	for _, end := range system.DataOf[*schemas.ToolExecutionEnd](log) {
		got = append(got, end.ToolName+": "+end.Result.Content.JoinText()+string(end.Result.Details))
	}
	slices.SortFunc(got, func(a, b string) int { return len(a) - len(b) })
	if len(got) != 2 {
		t.Fatalf("%d calls: %q", len(got), got)
	}
	if d := cmp.Diff(`math_add: {"sum":42}{"sum":42}`, got[0]); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if want := "math_add: Validation failed for tool"; len(got[1]) < len(want) || got[1][:len(want)] != want {
		t.Errorf("a call with wrong arguments: %q", got[1])
	}
	if d := cmp.Diff([]schemas.TerminationReason{"no_tool_calls"}, system.Reasons(log)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
