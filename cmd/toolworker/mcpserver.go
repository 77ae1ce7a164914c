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

	// unservedAfter is how long a call waits while nobody announces its tool.
	unservedAfter = 30 * time.Second
)

// serveMCP offers the tools on the bus to MCP clients until ctx ends or the one client has left.
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
		return serveHTTP(ctx, gateway, o.MCP.HTTP, o.MCP.Token, log)
	}
	return gateway.ServeIO(ctx, io.NopCloser(in), nopCloser{out})
}

// firstTools makes sure that the first client does not find an empty list.
func firstTools(ctx context.Context, toolbox *registry.Toolbox, set func([]schemas.ToolDefinition)) error {
	soon, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	defs, err := toolbox.Definitions(soon)
	if err == nil {
		set(defs)
	}
	return err
}

func serveHTTP(ctx context.Context, gateway *mcp.Gateway, addr, token string, log *slog.Logger) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return fmt.Errorf("--mcp-http: %w", err)
	}
	slots, handler := web.NewSlots(web.DefaultMaxRequests), gateway.Handler(token)
	server := observe.Server(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		slots.Serve(w, r, handler, func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "too many requests at once", http.StatusServiceUnavailable)
		})
	}), log)
	log.Info("MCP server listening", "url", "http://"+listener.Addr().String())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	select {
	case err = <-ended:
	case <-ctx.Done():
	}
	gateway.Close() // their requests do not end by themselves
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

// callOver has calls executed by the workers on the bus.
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

// forClients picks the tools of a workspace, the empty name being none, but for those that act on the session that
// calls them: an MCP client has none.
func forClients(defs []schemas.ToolDefinition, workspace string) []schemas.ToolDefinition {
	return slices.DeleteFunc(defs, func(d schemas.ToolDefinition) bool {
		return d.Workspace != workspace || slices.Contains(schemas.ExtensionTools(), d.Name)
	})
}

// callerID is new with every start: answers to calls of a process before must not be taken for answers to ours.
func callerID(worker string) string { return "mcp-" + token(worker, time.Now().String()) }

// sessionID is the session that workers get for an MCP client: legal, the same for all calls of its session, and no
// session of a runner. Like the caller it is new with every start, so that none of its calls is taken for one of a
// process before.
func sessionID(caller, session string) string { return "mcp-" + token(caller, session) }

func token(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:15]))
}

// version is that of the module, if it was built with one.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "dev"
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
