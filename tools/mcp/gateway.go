package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/schemas/toolargs"
	"github.com/loopbus/loopbus/schemas/toolargs/cached"
)

// defaultMaxCalls limits the concurrent calls of all clients together.
const defaultMaxCalls = 256

// A CallFunc executes a call of a tool for an MCP client. session is a valid session id, the same for all calls of a
// client's session. The arguments satisfy the tool's parameters. It must stop when ctx ends. It may call update with
// partial results, not concurrently and not after it has returned. It may be called concurrently. An error says why
// there is no result.
type CallFunc func(ctx context.Context, session string, def schemas.ToolDefinition, args json.RawMessage,
	update func(schemas.ToolResult)) (result schemas.ToolResult, isError bool, err error)

// GatewayOptions configures [NewGateway].
type GatewayOptions struct {
	// Version is the server version that clients receive.
	Version string
	// Call executes the calls.
	Call CallFunc
	// Session returns the session id for the id of an MCP session, which is empty over standard input and output.
	Session func(id string) string
	// Only lists the names of the tools that are offered; nil means all.
	Only []string
	// Scopes are the scopes that clients have: a tool that requires any other scope is not offered.
	Scopes []string
	// MaxCalls limits the concurrent calls of all clients, default 256: further calls are refused.
	MaxCalls int
	// Logger records tools that cannot be offered; nil discards. Calls and results are not logged.
	Logger *slog.Logger
}

// A Gateway offers tools as an MCP server. Its methods are safe for concurrent use.
type Gateway struct {
	o      GatewayOptions
	server *sdk.Server
	slots  chan struct{}
	posts  posts
	bodies bodies
	unread unread

	mu      sync.Mutex
	offered map[string]json.RawMessage // definitions, by name
}

// NewGateway returns a Gateway that offers nothing yet.
func NewGateway(o GatewayOptions) *Gateway {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	g := &Gateway{
		o: o, slots: make(chan struct{}, cmp.Or(o.MaxCalls, defaultMaxCalls)), offered: map[string]json.RawMessage{},
		server: sdk.NewServer(&sdk.Implementation{Name: "loopbus", Version: cmp.Or(o.Version, "dev")}, &sdk.ServerOptions{
			Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{ListChanged: true}},
		}),
	}
	g.server.AddReceivingMiddleware(g.bounded)
	return g
}

// SetTools replaces the list of tools. Clients are notified if the tools offered to them have changed.
func (g *Gateway) SetTools(defs []schemas.ToolDefinition) {
	g.mu.Lock()
	defer g.mu.Unlock()
	gone := maps.Clone(g.offered)
	for _, def := range defs {
		if !g.may(def) {
			continue
		}
		raw, err := schemas.Marshal(def)
		if err == nil && bytes.Equal(g.offered[def.Name], raw) {
			delete(gone, def.Name)
			continue
		}
		if err == nil {
			err = g.offer(def)
		}
		if err != nil {
			g.o.Logger.Warn("tool not offered", "tool", def.Name, "err", err)
			continue
		}
		delete(gone, def.Name)
		g.offered[def.Name] = raw
	}
	if len(gone) == 0 {
		return
	}
	g.server.RemoveTools(slices.Sorted(maps.Keys(gone))...)
	for name := range gone {
		delete(g.offered, name)
	}
}

// may reports whether clients may use a tool.
func (g *Gateway) may(def schemas.ToolDefinition) bool {
	if g.o.Only != nil && !slices.Contains(g.o.Only, def.Name) {
		return false
	}
	return !slices.ContainsFunc(def.Scopes, func(s string) bool { return !slices.Contains(g.o.Scopes, s) })
}

// offer adds a tool. It returns an error where the SDK panics: on a schema that it does not accept. A worker sends the
// schema, so such a schema is no programming error. The compiled schema is not kept with the tool: anyone may announce
// many, and they take far more memory than their text.
func (g *Gateway) offer(def schemas.ToolDefinition) (err error) {
	if _, err := cached.Compile(def.Parameters); err != nil {
		return err
	}
	tool, err := sdkTool(def)
	if err != nil {
		return err
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	g.server.AddTool(tool, func(ctx context.Context, req *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return g.call(ctx, def, req)
	})
	return nil
}

// call executes one call. Every failure becomes an error result, so that models see it.
func (g *Gateway) call(ctx context.Context, def schemas.ToolDefinition, req *sdk.CallToolRequest) (*sdk.CallToolResult,
	error) {
	schema, err := cached.Compile(def.Parameters)
	if err != nil {
		return failed(err.Error()), nil
	}
	args, err := schema.Validate(ctx, def.Name, toolargs.Rewrite(ctx, def.ArgumentRewrites, object(req.Params.Arguments)))
	if err != nil {
		return failed(err.Error()), nil
	}
	select {
	case g.slots <- struct{}{}:
		defer func() { <-g.slots }()
	default:
		return failed(fmt.Sprintf("There are %d calls under way, which is as many as may be. Try again later.",
			cap(g.slots))), nil
	}
	ctx, end := g.posts.follow(ctx, req.Extra)
	defer end()
	result, isError, err := g.o.Call(ctx, g.o.Session(req.Session.ID()), def, args, progressReporter(ctx, req))
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return failed(err.Error()), nil
	}
	return sdkResult(result, isError), nil
}

// object returns the arguments; {} if they are missing.
func object(args json.RawMessage) json.RawMessage {
	if trimmed := bytes.TrimSpace(args); len(trimmed) == 0 || bytes.Equal(trimmed, []byte("null")) {
		return json.RawMessage("{}")
	}
	return args
}

func failed(text string) *sdk.CallToolResult {
	return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: text}}}
}
