package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools/mcp"
)

// gateway connects an SDK client with a gateway, over pipes. The client follows the list of tools by then.
func gateway(t *testing.T, o mcp.GatewayOptions) (*mcp.Gateway, *sdk.ClientSession, <-chan struct{}) {
	t.Helper()
	o.Session = func(id string) string { return "mcp-" + id }
	g := mcp.NewGateway(o)
	here, there := newPipes()
	served := make(chan error, 1)
	go func() { served <- g.ServeIO(context.Background(), there.in, there.out) }()
	changed := make(chan struct{}, 64)
	client := sdk.NewClient(&sdk.Implementation{Name: "test"}, &sdk.ClientOptions{
		ToolListChangedHandler: func(context.Context, *sdk.ToolListChangedRequest) { changed <- struct{}{} },
	})
	session, err := client.Connect(t.Context(), &sdk.IOTransport{Reader: here.in, Writer: here.out}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = session.Close()
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	// The SDK does not wait for the server's word that it tells of changes: what changes before is not told.
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	end := time.After(patience)
	for n := 0; ; n++ {
		g.SetTools([]schemas.ToolDefinition{{Name: fmt.Sprint("try", n)}})
		select {
		case <-changed:
			return g, session, changed
		case <-tick.C:
		case <-end:
			t.Fatal("no change is told")
		}
	}
}

func names(t *testing.T, session *sdk.ClientSession) (list []string) {
	t.Helper()
	for tool, err := range session.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, tool.Name)
	}
	slices.Sort(list)
	return list
}

// A tool that MCP clients cannot use does not take the others along.
func TestGatewayLeavesOutWhatItCannotOffer(t *testing.T) {
	t.Parallel()
	g, session, changed := gateway(t, mcp.GatewayOptions{Call: func(context.Context, string, schemas.ToolDefinition,
		json.RawMessage, func(schemas.ToolResult)) (schemas.ToolResult, bool, error) {
		return schemas.ToolResult{}, false, errors.New("no worker today")
	}})
	defs := []schemas.ToolDefinition{
		{Name: "plain"}, {Name: "anything", Parameters: json.RawMessage(`true`)},
		{Name: "untyped", Parameters: json.RawMessage(`{"properties":{}}`)},
		{Name: "list", Parameters: json.RawMessage(`{"type":"array"}`)},
		{Name: "header", Parameters: json.RawMessage(`{"type":"object","properties":{"a":{"type":"object",` +
			`"x-mcp-header":"A"}}}`)},
		{Name: "broken", Parameters: json.RawMessage(`{"type":7}`)},
	}
	g.SetTools(defs)
	<-changed
	if d := cmp.Diff([]string{"anything", "plain", "untyped"}, names(t, session)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	got, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "plain"})
	if err != nil || !got.IsError || got.Content[0].(*sdk.TextContent).Text != "no worker today" {
		t.Errorf("%+v, %v", got, err)
	}
	g.SetTools(defs) // nothing new
	g.SetTools(defs[:1])
	<-changed
	if d := cmp.Diff([]string{"plain"}, names(t, session)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestGatewayRefusesTooManyCalls(t *testing.T) {
	t.Parallel()
	begun, release := make(chan struct{}, 2), make(chan struct{})
	g, session, _ := gateway(t, mcp.GatewayOptions{MaxCalls: 1,
		Call: func(context.Context, string, schemas.ToolDefinition, json.RawMessage,
			func(schemas.ToolResult)) (schemas.ToolResult, bool, error) {
			begun <- struct{}{}
			<-release
			return schemas.TextResult("done"), false, nil
		}})
	g.SetTools([]schemas.ToolDefinition{{Name: "slow"}})
	first := make(chan error, 1)
	go func() {
		_, err := session.CallTool(context.Background(), &sdk.CallToolParams{Name: "slow"})
		first <- err
	}()
	<-begun
	got, err := session.CallTool(t.Context(), &sdk.CallToolParams{Name: "slow"})
	if err != nil || !got.IsError || !strings.Contains(got.Content[0].(*sdk.TextContent).Text, "as many as may be") {
		t.Errorf("%+v, %v", got, err)
	}
	close(release)
	select {
	case err := <-first:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(patience):
		t.Fatal("the first call does not end")
	}
}
