package main

import (
	"context"
	"io"
	"log/slog"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/cmd/internal/memory"
	"github.com/loopbus/loopbus/cmd/internal/observe"
	"github.com/loopbus/loopbus/cmd/internal/toolserve"
)

// aimedMemory is the memory of the worker above which garbage is collected more often than by default. Work that needs
// more raises the limit.
const aimedMemory = 256 << 20

// process is a running toolworker.
type process struct {
	o         *options
	conn      *bus.Conn
	servers   []*bridged
	log       *slog.Logger
	metrics   *prometheus.Registry
	announced atomic.Bool // the built-in tools are announced
}

// serve runs everything that was configured until ctx ends, a part fails, or the MCP client on stdio disconnects.
func (p *process) serve(ctx context.Context, serve toolserve.Options, in io.Reader, out io.Writer) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	jobs, ctx := errgroup.WithContext(ctx)
	jobs.Go(func() error { return memory.Bound(ctx, aimedMemory) })
	jobs.Go(func() error {
		return observe.Serve(ctx, p.o.Observe.HTTP, p.metrics, func() string { return p.unready(ctx) }, p.log)
	})
	for _, b := range p.servers {
		jobs.Go(func() error { b.run(ctx, p.conn, serve); return nil })
	}
	if len(p.o.Tools.Tools) > 0 {
		builtIn := serve
		builtIn.Announced = func() { p.announced.Store(true) }
		jobs.Go(func() error { return toolserve.Run(ctx, p.conn, builtIn) })
	} else {
		p.announced.Store(true)
	}
	if p.o.MCP.serves() {
		jobs.Go(func() error {
			defer end()
			return serveMCP(ctx, p.conn, p.o, in, out, p.log)
		})
	}
	return jobs.Wait()
}

// unready returns why the worker executes no calls; "" if it is ready. Tools of MCP servers do not count, as they may
// come and go.
func (p *process) unready(ctx context.Context) string {
	switch {
	case ctx.Err() != nil:
		return "stopping"
	case !p.announced.Load():
		return "tools not announced yet"
	case !p.conn.Connected():
		return "not connected to NATS"
	}
	return ""
}
