package main

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/dispatch"
	"github.com/loopbus/loopbus/bus/registry"
	"github.com/loopbus/loopbus/bus/web"
	"github.com/loopbus/loopbus/cmd/internal/observe"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools/mcp"
)

const (
	shutdownTime = 3 * time.Second

	// unservedAfter is how long a call waits while no worker announces its tool.
	unservedAfter = 30 * time.Second
)

// serveMCP offers the tools on the bus to MCP clients until ctx ends or, on stdio, the client disconnects.
func serveMCP(ctx context.Context, conn *bus.Conn, o *options, in io.Reader, out io.Writer, log *slog.Logger) error {
	id := callerID(o.Server.ID)
	caller, err := dispatch.NewCaller(conn, dispatch.CallerOptions{ID: id})
	if err != nil {
		return err
	}
	defer caller.Close()
	gateway := mcp.NewGateway(mcp.GatewayOptions{
		Version: version(), Call: callOver(caller), Session: func(session string) string { return sessionID(id, session) },
		Only: o.MCP.Only, Scopes: o.MCP.Scopes, Logger: log,
	})
	toolbox := registry.NewToolbox(conn, log)
	defer toolbox.Close()
	follow, stop := context.WithCancel(ctx)
	var following sync.WaitGroup
	defer following.Wait()
	defer stop()
	set := func(defs []schemas.ToolDefinition) { gateway.SetTools(forClients(defs, o.Tools.Workspace)) }
	if err := firstTools(ctx, toolbox, set); err != nil {
		return err
	}
	following.Go(func() { toolbox.Follow(follow, set) })
	following.Go(func() {
		o := dispatch.UnservedOptions{ID: o.Server.ID, After: unservedAfter, Toolbox: toolbox, Logger: log}
		dispatch.NewUnserved(conn, o).Run(follow)
	})
	if o.MCP.HTTP != "" {
		return serveHTTP(ctx, gateway, httpServer(gateway, o.MCP.Token, log), o.MCP.HTTP, log)
	}
	return gateway.ServeIO(ctx, io.NopCloser(in), nopCloser{out})
}

// firstTools waits for the first list of tools, so that the first client does not see an empty one.
func firstTools(ctx context.Context, toolbox *registry.Toolbox, set func([]schemas.ToolDefinition)) error {
	soon, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	defs, err := toolbox.Definitions(soon)
	if err == nil {
		set(defs)
	}
	return err
}

// httpServer serves the gateway's clients, with a limit of concurrent requests.
func httpServer(gateway *mcp.Gateway, token string, log *slog.Logger) *http.Server {
	slots, handler := web.NewSlots(web.DefaultMaxRequests), gateway.Handler(token)
	return observe.Server(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		slots.Serve(w, r, handler, func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "too many concurrent requests", http.StatusServiceUnavailable)
		})
	}), log)
}

// serveHTTP serves at an address until ctx ends, and then closes the gateway's sessions.
func serveHTTP(ctx context.Context, gateway *mcp.Gateway, server *http.Server, addr string, log *slog.Logger) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("--mcp-http: %w", err)
	}
	log.Info("MCP server listening", "url", "http://"+listener.Addr().String())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err = <-ended:
	case <-ctx.Done():
	}
	gateway.Close() // streaming requests do not end by themselves
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTime)
	defer cancel()
	if server.Shutdown(last) != nil {
		_ = server.Close()
	}
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("--mcp-http: %w", err)
	}
	return nil
}

// callOver returns a function that has calls executed by the workers on the bus.
func callOver(caller *dispatch.Caller) mcp.CallFunc {
	return func(ctx context.Context, session string, def schemas.ToolDefinition, args json.RawMessage,
		update func(schemas.ToolResult),
	) (schemas.ToolResult, bool, error) {
		response, err := caller.Call(ctx, session, def, args, update)
		if err != nil {
			return schemas.ToolResult{}, false, err
		}
		return response.Result, response.IsError, nil
	}
}

// forClients selects the tools of a workspace, "" being none. It excludes the extension tools, which act on the
// calling session: an MCP client has no session.
func forClients(defs []schemas.ToolDefinition, workspace string) []schemas.ToolDefinition {
	return slices.DeleteFunc(defs, func(d schemas.ToolDefinition) bool {
		return d.Workspace != workspace || slices.Contains(schemas.ExtensionTools(), d.Name)
	})
}

// callerID returns an id that is new on every start, so that answers to calls of an earlier process are not mistaken
// for answers to this one's.
func callerID(worker string) string { return "mcp-" + token(worker, time.Now().String()) }

// sessionID returns the session id that workers see for an MCP client. It is valid, the same for all calls of the
// client's session, and differs from the sessions of runners. Like the caller's id it is new on every start.
func sessionID(caller, session string) string { return "mcp-" + token(caller, session) }

func token(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:15]))
}

// version returns the version of the module, if the build has one.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "dev"
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
