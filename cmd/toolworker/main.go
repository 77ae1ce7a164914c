// Command toolworker announces the built-in tools on a message bus and executes the calls that agents make of them.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/cmd/internal/config"
	"github.com/loopbus/loopbus/cmd/internal/signals"
	"github.com/loopbus/loopbus/cmd/internal/toolserve"
)

// connectTimeout is how long the server may take to be there, and to set up the streams.
const connectTimeout = 10 * time.Second

func main() {
	err := run(signals.Context(), os.Args[1:], os.Getenv, os.Environ(), os.Stdout, os.Stderr)
	if err != nil && !errors.Is(err, config.ErrHelp) {
		fmt.Fprintln(os.Stderr, "toolworker:", err)
		os.Exit(1)
	}
}

// run serves tools until ctx ends and then drains.
func run(ctx context.Context, args []string, getenv func(string) string, environ []string, stdout, stderr io.Writer) error {
	o, err := parse(args, getenv, stdout)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: o.level}))
	conn, err := connect(ctx, o, log)
	if err != nil {
		return err
	}
	defer conn.Close()
	return toolserve.Run(ctx, conn, toolserve.Options{
		ID: o.id, Tools: o.tools, Root: o.root, Env: o.env, Concurrency: o.concurrency, StopTimeout: o.stopTimeout,
		Environ: environ, Logger: log,
	})
}

// connect reaches the server and makes sure that the streams are there, whoever starts first.
func connect(ctx context.Context, o *options, log *slog.Logger) (*bus.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := bus.Connect(ctx, bus.ConnOptions{
		URL: o.nats, CredsFile: o.creds, Prefix: o.prefix, Name: "toolworker " + o.id, Logger: log,
	})
	if err != nil {
		return nil, err
	}
	if err := bus.Setup(ctx, conn, bus.StreamOptions{}); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}
