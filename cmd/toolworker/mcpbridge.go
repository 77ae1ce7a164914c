package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"reflect"
	"strconv"
	"sync"
	"time"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/cmd/internal/toolserve"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/mcp"
)

// retryWorker is the pause before a worker that failed is started again.
const retryWorker = 5 * time.Second

// bridges creates a bridge to every MCP server; it starts nothing.
func bridges(configs []mcp.ServerConfig, environ []string, log *slog.Logger) ([]*bridged, error) {
	names := make([]string, len(configs))
	for i, c := range configs {
		names[i] = c.Name
	}
	list := make([]*bridged, len(configs))
	for i, prefix := range mcp.Prefixes(names) {
		b := &bridged{prefix: prefix, lists: make(chan []tools.Tool, 1), log: log}
		bridge, err := mcp.NewBridge(mcp.BridgeOptions{
			Server: configs[i], Prefix: prefix, Environ: environ, Version: version(), Offer: b.offer, Logger: log,
			MaxImageBytes: toolserve.MaxImageBytes,
		})
		if err != nil {
			return nil, err
		}
		b.bridge, list[i] = bridge, b
	}
	return list, nil
}

// bridged serves the tools of one MCP server. The tools of a worker are fixed, so each list of tools gets a new
// worker: it announces its tools before the old worker stops, which finishes the calls in flight.
type bridged struct {
	bridge *mcp.Bridge
	prefix string
	lists  chan []tools.Tool // holds the newest list that is not served yet
	log    *slog.Logger
}

// offer sets the list of tools to serve next, replacing one that was not served yet. Only the bridge calls it.
func (b *bridged) offer(list []tools.Tool) {
	select {
	case <-b.lists:
	default:
	}
	b.lists <- list
}

// run serves until ctx ends. Workers drain while the bridge still has its session.
func (b *bridged) run(ctx context.Context, conn *bus.Conn, o toolserve.Options) {
	session, end := context.WithCancel(context.WithoutCancel(ctx))
	var bridge, workers sync.WaitGroup
	bridge.Go(func() { b.bridge.Run(session) })
	defer bridge.Wait()
	defer end()
	defer workers.Wait()
	var now *shift
	for n := 1; ; n++ {
		var list []tools.Tool
		select {
		case <-ctx.Done():
			now.stop()
			return
		case list = <-b.lists:
			if now.serves(list) {
				continue
			}
		case <-now.over():
			b.log.Warn("serving the tools of an MCP server failed, will retry", "mcp", b.prefix, "err", now.err)
			list, now = now.list, nil
			select {
			case <-ctx.Done():
				return
			case list = <-b.lists:
			case <-time.After(retryWorker):
			}
		}
		before := now
		now = b.begin(ctx, conn, o, list, n, &workers)
		before.stop()
	}
}

// begin starts a worker and returns when it has announced its tools, or has ended. For an empty list it starts none.
func (b *bridged) begin(ctx context.Context, conn *bus.Conn, o toolserve.Options, list []tools.Tool, n int,
	workers *sync.WaitGroup) *shift {
	o.Life = ctx // a list that changes ends no call
	ctx, cancel := context.WithCancel(ctx)
	s := &shift{list: list, cancel: cancel, done: make(chan struct{})}
	if len(list) == 0 {
		return s
	}
	announced := make(chan struct{})
	o.ID, o.Announced = workerID(o.ID, b.prefix, n), func() { close(announced) }
	workers.Go(func() {
		defer close(s.done)
		s.err = toolserve.Serve(ctx, conn, o, list)
	})
	select {
	case <-announced:
	case <-s.done:
	}
	return s
}

// shift is a worker that serves one list of tools. A nil shift serves nothing.
type shift struct {
	list   []tools.Tool
	cancel context.CancelFunc
	done   chan struct{} // closed when the worker has ended
	err    error         // why it ended, valid once done is closed
}

func (s *shift) stop() {
	if s != nil {
		s.cancel()
	}
}

func (s *shift) over() <-chan struct{} {
	if s == nil {
		return nil
	}
	return s.done
}

// serves reports whether a list has the same definitions. They are executed by the same bridge.
func (s *shift) serves(list []tools.Tool) bool {
	return s != nil && reflect.DeepEqual(definitions(s.list), definitions(list))
}

func definitions(list []tools.Tool) []schemas.ToolDefinition {
	defs := make([]schemas.ToolDefinition, len(list))
	for i, t := range list {
		defs[i] = t.ToolDefinition
	}
	return defs
}

// workerID returns the id of the nth worker of an MCP server: a valid token, however long the parts are.
func workerID(id, prefix string, n int) string {
	const most = 64
	ending := fmt.Sprintf("-%s-%s", prefix, strconv.Itoa(n))
	if len(id)+len(ending) > most {
		sum := sha256.Sum256([]byte(id))
		id = id[:most-len(ending)-9] + "-" + hex.EncodeToString(sum[:4])
	}
	return id + ending
}
